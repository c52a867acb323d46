# SPDX-License-Identifier: BSD-3-Clause
# make install [DESTDIR=] [PREFIX=/usr/local] [LIBDIR= SYSCONFDIR= MANDIR=]

BINDIR     ?= $(PREFIX)/bin
MANDIR     ?= $(PREFIX)/share/man
DOCDIR     ?= $(PREFIX)/share/doc/rdmarpc
INSTALL    ?= install

# Where rdmarpc-run looks last.
rdmarpc-run_CFLAGS = -DRR_LIBDIR='"$(LIBDIR)"'

.PHONY: install uninstall
install: all
	$(INSTALL) -d $(DESTDIR)$(LIBDIR) $(DESTDIR)$(BINDIR) $(DESTDIR)$(DOCDIR)
	$(INSTALL) -m 755 $(SHIM) $(wildcard $(DIAG) $(VERBS)) $(DESTDIR)$(LIBDIR)
	$(INSTALL) -m 755 $(addprefix $(BUILD)/,$(TOOLS)) $(DESTDIR)$(BINDIR)
	$(INSTALL) -m 644 rdmarpc.conf.example $(DESTDIR)$(DOCDIR)
	set -e; for page in man/*.[1-8]; do d=$(DESTDIR)$(MANDIR)/man$${page##*.}; \
	    $(INSTALL) -d $$d; $(INSTALL) -m 644 $$page $$d; done

uninstall:
	rm -f $(addprefix $(DESTDIR)$(LIBDIR)/,$(notdir $(SHIM) $(DIAG) $(VERBS)))
	rm -f $(addprefix $(DESTDIR)$(BINDIR)/,$(TOOLS))
	rm -f $(DESTDIR)$(DOCDIR)/rdmarpc.conf.example
	set -e; for page in man/*.[1-8]; do \
	    rm -f $(DESTDIR)$(MANDIR)/man$${page##*.}/$${page##*/}; done
