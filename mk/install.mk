# SPDX-License-Identifier: BSD-3-Clause
# make install [DESTDIR=] [PREFIX=/usr/local] [LIBDIR= SYSCONFDIR= MANDIR=]

BINDIR     ?= $(PREFIX)/bin
MANDIR     ?= $(PREFIX)/share/man
DOCDIR     ?= $(PREFIX)/share/doc/rdmarpc
CASEDIR    ?= $(PREFIX)/share/rdmarpc/conform
INSTALL    ?= install

# Where rdmarpc-run looks last.
rdmarpc-run_CFLAGS = -DRR_LIBDIR='"$(LIBDIR)"'
# And where rdmarpc-conform has its cases.
rdmarpc-conform_CFLAGS = -DRR_CASEDIR='"$(CASEDIR)"'

.PHONY: install uninstall
install: all
	$(INSTALL) -d $(DESTDIR)$(LIBDIR) $(DESTDIR)$(BINDIR) $(DESTDIR)$(DOCDIR)
	$(INSTALL) -m 755 $(SHIM) $(wildcard $(DIAG) $(VERBS)) $(DESTDIR)$(LIBDIR)
	$(INSTALL) -m 755 $(addprefix $(BUILD)/,$(TOOLS)) $(DESTDIR)$(BINDIR)
	$(INSTALL) -m 644 rdmarpc.conf.example $(DESTDIR)$(DOCDIR)
	set -e; for f in $$(cd tests/conform/cases && ls */*.case); do \
	    $(INSTALL) -D -m 644 tests/conform/cases/$$f $(DESTDIR)$(CASEDIR)/$$f; done
	set -e; for page in man/*.[1-8]; do d=$(DESTDIR)$(MANDIR)/man$${page##*.}; \
	    $(INSTALL) -d $$d; $(INSTALL) -m 644 $$page $$d; done

uninstall:
	rm -f $(addprefix $(DESTDIR)$(LIBDIR)/,$(notdir $(SHIM) $(DIAG) $(VERBS)))
	rm -f $(addprefix $(DESTDIR)$(BINDIR)/,$(TOOLS))
	rm -f $(DESTDIR)$(DOCDIR)/rdmarpc.conf.example
	rm -rf $(DESTDIR)$(CASEDIR)
	set -e; for page in man/*.[1-8]; do \
	    rm -f $(DESTDIR)$(MANDIR)/man$${page##*.}/$${page##*/}; done
