# SPDX-License-Identifier: BSD-3-Clause
# make install | uninstall [DESTDIR=] [PREFIX=/usr/local] [LIBDIR= BINDIR= MANDIR= DOCDIR= CASEDIR= BASHDIR=
#   ZSHDIR= EXTCAPDIR= TMPFILESDIR=]; make dist: the sources of HEAD, the same bytes each time

BINDIR     ?= $(PREFIX)/bin
MANDIR     ?= $(PREFIX)/share/man
DOCDIR     ?= $(PREFIX)/share/doc/rdmarpc
CASEDIR    ?= $(PREFIX)/share/rdmarpc/conform
BASHDIR    ?= $(PREFIX)/share/bash-completion/completions
ZSHDIR     ?= $(PREFIX)/share/zsh/site-functions
EXTCAPDIR  ?= $(LIBDIR)/wireshark/extcap
TMPFILESDIR ?= $(PREFIX)/lib/tmpfiles.d
INSTALL    ?= install

# Where the tools look for the library last.
library_CFLAGS = -DRR_LIBDIR='"$(LIBDIR)"'
# And where rdmarpc-conform has its cases.
rdmarpc-conform_CFLAGS = -DRR_CASEDIR='"$(CASEDIR)"'
# What contains a path is built anew when that has become another.
$(call obj,tools/library.c tools/rdmarpc-conform.c tools/conform/link_native.c): $(BUILD)/gen/paths
$(BUILD)/gen/paths: FORCE
	$(mkdir)
	@echo '$(LIBDIR) $(CASEDIR)' | cmp -s - $@ || echo '$(LIBDIR) $(CASEDIR)' >$@
# So is what contains the version.
$(call obj,core/base/stats.c tests/unit/test_stats.c $(addprefix tools/,$(TOOLS:=.c) check/local.c dump/extcap.c \
    dump/pcapng.c stat/baseline.c stat/json.c)): $(BUILD)/gen/version
$(BUILD)/gen/version: FORCE
	$(mkdir)
	@echo '$(VERSION)' | cmp -s - $@ || echo '$(VERSION)' >$@
.PHONY: FORCE

.PHONY: install uninstall
install: all
	$(INSTALL) -d $(DESTDIR)$(LIBDIR) $(DESTDIR)$(BINDIR) $(DESTDIR)$(DOCDIR)
	$(INSTALL) -m 755 $(SHIM) $(wildcard $(DIAG) $(VERBS)) $(DESTDIR)$(LIBDIR)
	$(INSTALL) -m 755 $(addprefix $(BUILD)/,$(TOOLS)) $(DESTDIR)$(BINDIR)
	$(INSTALL) -m 644 rdmarpc.conf.example $(DESTDIR)$(DOCDIR)
	$(INSTALL) -D -m 644 config/rdmarpc.tmpfiles $(DESTDIR)$(TMPFILESDIR)/rdmarpc.conf
	$(INSTALL) -D -m 644 tools/completion/_rdmarpc $(DESTDIR)$(ZSHDIR)/_rdmarpc
	$(INSTALL) -d $(DESTDIR)$(EXTCAPDIR)
	ln -sfr $(DESTDIR)$(BINDIR)/rdmarpc-dump $(DESTDIR)$(EXTCAPDIR)/rdmarpc
	$(INSTALL) -d $(DESTDIR)$(BASHDIR)
	set -e; for t in $(TOOLS); do \
	    $(INSTALL) -m 644 tools/completion/rdmarpc.bash $(DESTDIR)$(BASHDIR)/$$t; done
	set -e; for f in $$(cd tests/conform/cases && ls */*.case); do \
	    $(INSTALL) -D -m 644 tests/conform/cases/$$f $(DESTDIR)$(CASEDIR)/$$f; done
	set -e; for page in man/*.[1-8]; do d=$(DESTDIR)$(MANDIR)/man$${page##*.}; \
	    $(INSTALL) -d $$d; $(INSTALL) -m 644 $$page $$d; done

uninstall:
	rm -f $(addprefix $(DESTDIR)$(LIBDIR)/,$(notdir $(SHIM) $(DIAG) $(VERBS)))
	rm -f $(addprefix $(DESTDIR)$(BINDIR)/,$(TOOLS))
	rm -f $(DESTDIR)$(DOCDIR)/rdmarpc.conf.example $(DESTDIR)$(TMPFILESDIR)/rdmarpc.conf
	rm -f $(DESTDIR)$(ZSHDIR)/_rdmarpc $(addprefix $(DESTDIR)$(BASHDIR)/,$(TOOLS))
	rm -f $(DESTDIR)$(EXTCAPDIR)/rdmarpc
	rm -rf $(DESTDIR)$(CASEDIR)
	set -e; for page in man/*.[1-8]; do \
	    rm -f $(DESTDIR)$(MANDIR)/man$${page##*.}/$${page##*/}; done

# Of a checkout, by its commit's time; xz with one thread writes the same bytes everywhere.
.PHONY: dist
dist:
	$(Q)git archive --format=tar --prefix=rdmarpc-$(VERSION)/ HEAD | xz -9 -T1 >rdmarpc-$(VERSION).tar.xz
	@echo rdmarpc-$(VERSION).tar.xz
