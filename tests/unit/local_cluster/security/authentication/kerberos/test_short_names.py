"""Rules for names of principals; the cases of Kafka's own tests, and what is refused."""

from __future__ import annotations

import pytest

from local_cluster.security.authentication.kerberos.short_names import NoShortNameError, ShortNames

APP_RULES = (
    r"RULE:[1:$1](App\..*)s/App\.(.*)/$1/g",
    r"RULE:[2:$1](App\..*)s/App\.(.*)/$1/g",
    "DEFAULT",
)


@pytest.mark.parametrize(
    ("rules", "principal", "name"),
    [
        # KerberosNameTest.
        (APP_RULES, "App.service-name/example.com@REALM.COM", "service-name"),
        (APP_RULES, "App.service-name@REALM.COM", "service-name"),
        (APP_RULES, "user/host@REALM.COM", "user"),
        (("RULE:[1:$1]/L",), "User@REALM.COM", "user"),
        (("RULE:[2:$1]/L",), "TestABC/host@FOO.COM", "testabc"),
        (
            (r"RULE:[1:$1](App\..*)s/App\.(.*)/$1/g/L",),
            "App.SERVICE-name@REALM.COM",
            "service-name",
        ),
        (("RULE:[1:$1]/U",), "User@REALM.COM", "USER"),
        (("RULE:[2:$1]/U",), "TestABC/host@FOO.COM", "TESTABC"),
        (("RULE:[2:$1]()s/ABC/XYZ/g/U", "RULE:[2:$1]"), "TestABC/host@FOO.COM", "TestABC"),
        # KerberosRuleTest.
        (("RULE:[1:hello]",), "x@R", "hello"),
        (("RULE:[1:hello $0]",), "x@too", "hello too"),
        (("RULE:[1:hello $1]",), "no recursion $1@R", "hello no recursion $1"),
        # Others.
        (("RULE:[1:$1]s/a/b/",), "aa@R", "ba"),
        (("RULE:[1:$1]s/a/b/g",), "aa@R", "bb"),
        ((r"RULE:[2:$1;$2](.*;admin)s/;admin//",), "alice/admin@R", "alice"),
        (("RULE:[1:$1$0](.*R2)s/R2//", "DEFAULT"), "bob@R2", "bob"),
        ((r"RULE:[1:$1]s/(a)(b)?/<$1$2>\$/",), "ac@R", "<a>$c"),
        ((r"RULE:[1:$1]s/(a)/$12/",), "a@R", "a2"),
    ],
)
def test_the_first_rule_that_applies_decides(
    rules: tuple[str, ...], principal: str, name: str
) -> None:
    assert ShortNames(rules, "REALM.COM").name_of(principal) == name


@pytest.mark.parametrize(
    ("rules", "principal", "said"),
    [
        (("DEFAULT",), "alice@OTHER.COM", "no rule of sasl.kerberos.principal.to.local.rules"),
        (("RULE:[2:$1]",), "alice@REALM.COM", "no rule"),
        (("RULE:[1:$1](bob)",), "alice@REALM.COM", "no rule"),
        # Not the next rule: a name that is none ends the search.
        (("RULE:[1:$1@$0]", "DEFAULT"), "alice@REALM.COM", "becomes 'alice@REALM.COM'"),
        (("RULE:[2:$1/$2]",), "alice/host@REALM.COM", "no simple name"),
        (("RULE:[1:$1]s/.*//",), "alice@REALM.COM", "becomes ''"),
        (("DEFAULT",), "@REALM.COM", "becomes ''"),
        (("DEFAULT",), "alice", "is not FIRST@REALM"),
        (("DEFAULT",), "a/b/c@REALM.COM", "is not FIRST@REALM"),
        (("DEFAULT",), "alice@REALM.COM@OTHER.COM", "is not FIRST@REALM"),
    ],
)
def test_who_has_no_name(rules: tuple[str, ...], principal: str, said: str) -> None:
    with pytest.raises(NoShortNameError, match=said):
        ShortNames(rules, "REALM.COM").name_of(principal)


@pytest.mark.parametrize(
    "rule",
    [
        "",
        "default",
        "DEFAULT/L",
        "RULE:[1:$1]x",
        "RULE:[1:$1](a",
        "RULE:[1:$1]s/a/b",
        "RULE:[:$1]",
        "RULE:[1:$2]",
        "RULE:[1:$a]",
        "RULE:[1:$1]([)",
        "RULE:[1:$1]s/(/x/",
        "RULE:[1:$1]s/a/$1/",
        "RULE:[1:$1]s/a/$x/",
        "RULE:[1:$1]/LU",
        "RULE:[1:" + 2_000 * "x" + "]",
    ],
)
def test_rules_that_cannot_be_read(rule: str) -> None:
    with pytest.raises(ValueError, match=r"RULE|rule"):
        ShortNames((rule,))
