# SPDX-License-Identifier: Apache-2.0
"""Programs in PHP, Ruby, Erlang and Elixir, of Debian's packages for this machine's own interpreters, with what
they need, and the profilers of these languages: unpacked, and kept in the tests' cache."""
import pathlib
import platform
import subprocess

import debian

PACKAGES = (
    # Composer and PHPUnit; Excimer, the profiler
    "composer", "php-composer-ca-bundle", "php-composer-class-map-generator", "php-composer-metadata-minifier",
    "php-composer-pcre", "php-composer-semver", "php-composer-spdx-licenses", "php-composer-xdebug-handler",
    "php-json-schema", "jsonlint", "php-psr-container", "php-psr-log", "php-react-promise", "php-seld-signal-handler",
    "php-symfony-console", "php-symfony-deprecation-contracts", "php-symfony-filesystem", "php-symfony-finder",
    "php-symfony-process", "php-symfony-service-contracts", "php-symfony-string",
    "php8.2-mbstring", "php8.2-intl", "php8.2-xml", "libonig5", "php-excimer",
    "phpunit", "php-parser", "php-file-iterator", "php-text-template", "phpunit-code-unit-reverse-lookup",
    "phpunit-complexity", "phpunit-environment", "phpunit-lines-of-code", "phpunit-version", "php-tokenizer",
    "php-codecoverage", "php-deepcopy", "php-doctrine-instantiator", "php-invoker", "php-phar-io-version",
    "php-phar-io-manifest", "php-timer", "phpunit-cli-parser", "phpunit-code-unit", "phpunit-diff",
    "phpunit-recursion-context", "phpunit-exporter", "phpunit-comparator", "phpunit-object-reflector",
    "phpunit-global-state", "phpunit-object-enumerator", "phpunit-resource-operations", "phpunit-type",
    # PHP in servers
    "php8.2-fpm", "libapache2-mod-php8.2", "apache2-bin", "libapr1", "libaprutil1", "libjansson4", "liblua5.3-0",
    "libnghttp2-14",
    # RuboCop, and Sinatra under Puma; StackProf, the profiler
    "rubocop", "ruby-rubocop-ast", "ruby-whitequark-parser", "ruby-ast", "ruby-parallel", "ruby-progressbar",
    "ruby-rainbow", "ruby-regexp-parser", "ruby-unicode-display-width", "ruby-stackprof",
    "ruby-ruby2-keywords", "ruby-mustermann", "ruby-rack", "ruby-rack-protection", "ruby-tilt", "ruby-sinatra",
    "ruby-nio4r", "puma",
    # Elixir, and RabbitMQ
    "elixir", "rabbitmq-server", "erlang-asn1", "erlang-crypto", "erlang-eldap", "erlang-ftp", "erlang-inets",
    "erlang-mnesia", "erlang-os-mon", "erlang-parsetools", "erlang-public-key", "erlang-runtime-tools",
    "erlang-snmp", "erlang-ssl", "erlang-syntax-tools", "erlang-tftp", "erlang-tools", "erlang-xmerl")

# PHPUnit's own tests, and Mix, which is a project of Mix itself
SOURCES = ("phpunit", "elixir-lang")


def fetched():
    """The folder of that root; None where it cannot be had."""
    suite = platform.freedesktop_os_release().get("VERSION_CODENAME", "")

    def make(root):
        (root / "src").mkdir()
        with debian.Suite(suite) as packages:
            packages.unpack(PACKAGES, root)
            for name in SOURCES:
                packages.source(name, root / "src")
        for path in (root / "src").glob("*.orig.tar.*"):
            subprocess.run(["tar", "-x", "-C", root / "src", "--no-same-owner", "-f", path], check=True)

    def settle(root):
        # a table that is looked for beside the program
        (root / "usr/lib/ruby/data").symlink_to("../../share/ruby-unicode-display-width")
        (root / "whole").touch()

    found = debian.kept(f"scripts/{suite}", "whole", make, settle)
    return found and pathlib.Path(found).parent


def ruby_path(root):
    """Value of RUBYLIB."""
    gems = (root / "usr/share/rubygems-integration/all/gems").glob("*/lib")
    return ":".join(map(str, [*sorted(gems), root / "usr/lib/ruby/vendor_ruby",
                              *root.glob("usr/lib/*/ruby/vendor_ruby/[0-9]*"),
                              *root.glob("usr/lib/*/rubygems-integration/*/extensions/*/*/*"),
                              *root.glob("usr/lib/*/rubygems-integration/*/gems/*/lib"),
                              *root.glob("usr/share/rubygems-integration/*/gems/*/lib")]))


def erlang_paths(root):
    """Folders of modules, for `erl -pa`."""
    return sorted([*root.glob("usr/lib/elixir/lib/*/ebin"), *root.glob("usr/lib/erlang/lib/*/ebin")])
