# Everything from here: `make demo` and `make test` do all on a fresh Debian machine as root.

CARGO ?= cargo
PREFIX ?= /usr/local
BENCH ?=
SLUICE = target/release/sluice
TRIAL = target/trial/sluice

.PHONY: help build demo demo-quick gara test test-kernel nightly fuzz bench install install-files install-c uninstall packages packages-test site clean wheel web

help:
	@echo "make demo        a real video against a flood, without and with a reservation (root, about 5 minutes)"
	@echo "make demo-quick  the same at one point (root, about a minute)"
	@echo "make gara        the experiments of GARA in full length; a bound that is missed is a failure (root, about 25 minutes)"
	@echo "make test        every test (root for the parts that send real packets)"
	@echo "make test-kernel the tests of the kernel on Debian's own, in an emulated machine (root, QEMU, about 15 minutes)"
	@echo "make nightly     longer forms of the tests: more cases and seeds, the default refresh period, fuzzing (about an hour)"
	@echo "make fuzz        each decoder for FUZZ_SECONDS ($(FUZZ_SECONDS)), with a nightly compiler and cargo-fuzz"
	@echo "make bench       every benchmark, one JSON line per figure; BENCH=pattern for those that match"
	@echo "make web         the pages for browsers, client/web/dist, from their sources (Node and npm)"
	@echo "make wheel       the Python package, under target/wheel"
	@echo "make packages    Debian packages, in target/packages (debhelper); packages-test tries them, in an emulated machine too (root)"
	@echo "make site        the documents as a site, target/site (mdbook)"
	@echo "make install     the program, the C libraries, man pages, completions and systemd units, under PREFIX=$(PREFIX)"

build:
	@dist/setup.sh build
	$(CARGO) build --release --locked -p sluice

# The C libraries: the name in the folder BUILT, then the installed one.
LIBRARIES = rapi:rapi scrapi:scrapi sluice_c:sluice
BUILT ?= target/release
# The functions that a page of section 3 is about: each is a name of the page.
PAGE_NAMES = sed -n '/^\.Sh NAME/,/^\.Nd/s/^\.Nm \([a-z_]*\).*/\1/p'

# To try it: the profile `trial` builds in less time than a release, which is for measuring.
demo:
	@dist/setup.sh demo
	$(CARGO) build --profile trial --locked -p sluice
	$(TRIAL) demo

demo-quick:
	@dist/setup.sh demo
	$(CARGO) build --profile trial --locked -p sluice
	$(TRIAL) demo --quick

# The seed's experiments in full length. All run whatever fails before them; a bound that is missed ends this with an error.
GARA = gara-fig4 gara-fig4-greedy gara-fig5 gara-sla gara-fig6 gara-fig6-greedy deadline
gara: build
	@missed=; for name in $(GARA); do $(SLUICE) lab run $$name --json || missed="$$missed $$name"; done; \
	[ -z "$$missed" ] || { echo "not shown:$$missed" >&2; exit 1; }

# All tests run whatever fails, and the last line counts. Property tests have a fixed seed; SLUICE_SEED=NUMBER sets another.
test:
	@dist/setup.sh test
	@$(CARGO) run --quiet --locked -p xtask -- suite

# The crates with property tests.
PROPERTIES = -p sluice-wire -p sluice-terms -p sluice-wheel -p sluice-traffic -p sluice-admit -p sluice-booking -p sluice-rsvp -p sluice-control -p sluice-node

# Tests on Debian's kernel, in an emulated machine without KVM: what this machine's kernel lacks, and control groups of version 2 alone.
KERNEL_TESTS ?= driver/linux:linux driver/linux:host
test-kernel:
	@dist/setup.sh emulated || { echo "SKIPPED: test-kernel: what it needs is not here (above)" >&2; exit 0; }; \
	dist/emulated-tests.sh $(KERNEL_TESTS)

# The longer forms: what takes minutes to hours is not for every change.
nightly: test fuzz
	$(CARGO) run --quiet -p xtask -- checkpoints
	$(CARGO) run --release --locked -p sluice-wire --example torture -- 10000000
	@# Seeds by chance: each is printed, and in the output of what fails.
	SLUICE_SEED=random SLUICE_CASES=50 $(CARGO) test --release --locked --no-fail-fast $(PROPERTIES)
	SLUICE_SEEDS=1500 $(CARGO) test --release --locked -p sluice-sim
	@# About 10^7 operations, each answer as the brute-force oracle's.
	SLUICE_SEEDS=26000 $(CARGO) test --release --locked -p sluice-booking --test booking every_answer -- --nocapture
	$(CARGO) run --release --locked -p sluice-commit --example model -- --nightly
	SLUICE_MESSAGES=1000000 $(CARGO) test --release --locked -p sluice-linux --test linux kernel::boomerang
	SLUICE_AUDIT_ROWS=10000000 $(CARGO) test --release --locked -p sluice-store --test journal long_trail -- --nocapture
	@# Two brokers over one database, the leading one killed.
	SLUICE_KILLS=500 $(CARGO) test --release --locked -p sluice-broker --test broker kills:: -- --nocapture
	@# Blocks of the documents that take long, as well.
	SLUICE_NIGHTLY=1 $(CARGO) test --release --locked -p sluice --test cli docs:: -- --nocapture
	@# Every broker of three domains dies at every step.
	SLUICE_NIGHTLY=1 $(CARGO) test --release --locked -p sluice --test cli dies_at_any_step -- --nocapture
	@# Whoever stands still in a transaction does so for five minutes.
	SLUICE_STOPPED_S=300 $(CARGO) test --release --locked -p sluice --test cli c5_c12 -- --nocapture
	$(CARGO) build --release --locked -p sluice
	$(SLUICE) lab run rfc2963
	$(SLUICE) lab run mace-table2
	$(MAKE) gara
	$(SLUICE) torture soft-state --days 56
	$(SLUICE) torture commit --seeds 100000 --json
	$(SLUICE) torture crash --cycles 2000
	$(SLUICE) torture crash --agents 3 --cycles 2000 --json
	$(SLUICE) torture anomalies --jobs 4 --json
	$(SLUICE) lab setup-time --count 1000
	$(SLUICE) lab excess
	$(SLUICE) lab kill-router --down 10s
	$(SLUICE) lab kill-receiver --refresh 30s
	$(SLUICE) profile
	$(SLUICE) demo
	$(SLUICE) torture load --json
	$(SLUICE) torture load --quick --slow-disk --json
	$(MAKE) test-kernel
	$(MAKE) packages-test

# Each decoder for FUZZ_SECONDS, with a nightly compiler and cargo-fuzz; setup.sh installs both where it can.
FUZZ_SECONDS ?= 300
FUZZ_TARGETS = message structure object packet capture boomerang journal
fuzz:
	@dist/setup.sh fuzz || { echo "SKIPPED: fuzzing: what it needs is not here (above)" >&2; exit 0; }; \
	cd fuzz && $(CARGO) run --quiet --locked --bin seed && for target in $(FUZZ_TARGETS); do \
		$(CARGO) +nightly fuzz run $$target -- -max_total_time=$(FUZZ_SECONDS) -use_value_profile=1 || exit 1; \
	done

# One core for all that is compared; large pages as the service has them (dist/sluice-agent.service).
bench:
	@dist/setup.sh build
	@$(CARGO) bench --quiet --locked --workspace --bench '*' --no-run
	@GLIBC_TUNABLES=glibc.malloc.hugetlb=1 taskset -c $$(($$(nproc) - 1)) \
		$(CARGO) bench --quiet --locked --workspace --bench '*' -- $(BENCH)

# What is built is part of the repository, so that building the program takes no Node.
web:
	cd client/web && npm ci --ignore-scripts --no-audit --no-fund && npm run build

# The documents as a site, target/site; docs/SUMMARY.md has all of them (cargo xtask links).
site:
	@command -v mdbook >/dev/null || { echo "SKIPPED: mdbook is not here" >&2; exit 0; }; mdbook build

# The standard library writes it: nothing is fetched.
wheel:
	@python3 client/python/build.py target/wheel

install: build
	$(CARGO) build --release --locked -p sluice-c -p sluice-rapi -p sluice-scrapi
	$(MAKE) install-files

# What is built already; dist/packages.sh calls this with the folders of a distribution.
LIBDIR ?= $(PREFIX)/lib
UNITDIR ?= $(PREFIX)/lib/systemd/system
ZSH_COMPLETIONS ?= $(PREFIX)/share/zsh/site-functions
# Empty: symbols stay, and whoever packs them takes them off.
STRIP ?= -s
install-files:
	install -D -m 755 $(STRIP) $(BUILT)/sluice $(DESTDIR)$(PREFIX)/bin/sluice
	install -d -m 755 $(DESTDIR)/etc/sluice
	for file in agent broker policy; do [ -e $(DESTDIR)/etc/sluice/$$file.toml ] || \
		install -m 644 dist/etc/$$file.toml $(DESTDIR)/etc/sluice/$$file.toml || exit 1; done
	install -d $(DESTDIR)$(UNITDIR) $(DESTDIR)$(PREFIX)/lib/sysusers.d
	for unit in sluice-agent sluice-broker; do \
		sed 's|/usr/local/bin|$(PREFIX)/bin|' dist/$$unit.service > $(DESTDIR)$(UNITDIR)/$$unit.service; done
	install -m 644 dist/sluice.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/sluice.conf
	install -d $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/man/man5
	$(BUILT)/sluice man $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 dist/man/*.5 $(DESTDIR)$(PREFIX)/share/man/man5/
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions $(DESTDIR)$(ZSH_COMPLETIONS) \
		$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(BUILT)/sluice completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/sluice
	$(BUILT)/sluice completions zsh > $(DESTDIR)$(ZSH_COMPLETIONS)/_sluice
	$(BUILT)/sluice completions fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/sluice.fish
	install -D -m 644 dist/wireshark/boomerang.lua $(DESTDIR)$(PREFIX)/share/sluice/boomerang.lua
	install -d $(DESTDIR)$(PREFIX)/share/sluice/ldap
	install -m 644 dist/ldap/sluice.schema dist/ldap/sluice.ldif $(DESTDIR)$(PREFIX)/share/sluice/ldap/
	$(MAKE) install-c

# Debian packages, in target/packages/: what is built already is not built again.
packages: build
	@dist/setup.sh packages
	$(CARGO) build --release --locked -p sluice-c -p sluice-rapi -p sluice-scrapi
	dist/packages.sh build

# They are installed, installed again over a booking, removed and purged, in a folder made of Debian's own packages, in a container and in an
# emulated machine (root, network).
packages-test: packages
	@dist/setup.sh emulated || echo "SKIPPED: setup for an emulated machine (above)" >&2
	dist/packages.sh lint
	dist/packages.sh try

# The C libraries as they are built in BUILT: shared and static, headers, pkg-config files, pages of section 3.
install-c:
	install -d $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/share/man/man3
	for both in $(LIBRARIES); do built=$${both%%:*} name=$${both##*:}; \
		install -m 644 $(STRIP) $(BUILT)/lib$$built.so $(DESTDIR)$(LIBDIR)/lib$$name.so.1 && \
		ln -sf lib$$name.so.1 $(DESTDIR)$(LIBDIR)/lib$$name.so && \
		install -m 644 $(BUILT)/lib$$built.a $(DESTDIR)$(LIBDIR)/lib$$name.a && \
		strip --strip-debug $(DESTDIR)$(LIBDIR)/lib$$name.a && \
		sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|' dist/pkgconfig/lib$$name.pc.in > $(DESTDIR)$(LIBDIR)/pkgconfig/lib$$name.pc \
		|| exit 1; done
	install -m 644 client/rapi/include/rapi.h client/scrapi/include/scrapi.h client/c/include/sluice.h \
		$(DESTDIR)$(PREFIX)/include/
	for page in dist/man/*.3; do \
		install -m 644 $$page $(DESTDIR)$(PREFIX)/share/man/man3/ && for name in $$($(PAGE_NAMES) $$page); do \
		ln -sf $$(basename $$page) $(DESTDIR)$(PREFIX)/share/man/man3/$$name.3 || exit 1; done || exit 1; done

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/share/sluice/boomerang.lua
	rm -rf $(DESTDIR)$(PREFIX)/share/sluice/ldap
	rm -f $(DESTDIR)$(PREFIX)/bin/sluice $(DESTDIR)$(UNITDIR)/sluice-agent.service $(DESTDIR)$(UNITDIR)/sluice-broker.service
	rm -f $(DESTDIR)$(PREFIX)/lib/sysusers.d/sluice.conf
	rm -f $(DESTDIR)$(PREFIX)/share/man/man1/sluice*.1 $(DESTDIR)$(PREFIX)/share/man/man5/sluice-*.5
	for both in $(LIBRARIES); do name=$${both##*:}; rm -f $(DESTDIR)$(PREFIX)/include/$$name.h \
		$(DESTDIR)$(LIBDIR)/lib$$name.so $(DESTDIR)$(LIBDIR)/lib$$name.so.1 $(DESTDIR)$(LIBDIR)/lib$$name.a \
		$(DESTDIR)$(LIBDIR)/pkgconfig/lib$$name.pc; done
	for page in dist/man/*.3; do for name in $$(basename $$page .3) $$($(PAGE_NAMES) $$page); do \
		rm -f $(DESTDIR)$(PREFIX)/share/man/man3/$$name.3; done; done
	rm -f $(DESTDIR)$(PREFIX)/share/bash-completion/completions/sluice $(DESTDIR)$(ZSH_COMPLETIONS)/_sluice \
		$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/sluice.fish

clean:
	$(CARGO) clean
