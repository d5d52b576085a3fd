"""ssl.principal.mapping.rules; the cases are those of Kafka's SslPrincipalMapperTest."""

from __future__ import annotations

import pytest

from local_cluster.security.authentication.principal_rules import PrincipalRules

RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, "
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, "
    "DEFAULT"
)


@pytest.mark.parametrize(
    ("rules", "subject", "expected"),
    [
        (
            RULES,
            "CN=Duke,OU=ServiceUsers,O=Org,C=US",
            "duke",
        ),
        (RULES, "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        (RULES, "cn=JohnZ,OU=SME", "JOHNZ"),
        (RULES, "OU=JavaSoft,O=Sun Microsystems", "OU=JavaSoft,O=Sun Microsystems"),
        ("", "CN=a", "CN=a"),
        ("DEFAULT", "CN=a,OU=b", "CN=a,OU=b"),
        ("RULE:^CN=([^,]*).*$/$1/", "CN=Alice,OU=x", "Alice"),
        ("RULE:^CN=(.*)$/user-$1-$2/", "CN=a", "user-a-$2"),
        (r"RULE:^CN=a\/b$/slash\/$0/", "CN=a/b", "slash/CN=a/b"),
        ("RULE:^CN=b$/x/", "CN=bb", None),
        ("RULE:CN=a/x/", "OU=CN=a", None),
    ],
)
def test_the_first_rule_that_matches_the_whole_subject_decides(
    rules: str, subject: str, expected: str | None
) -> None:
    assert PrincipalRules(rules).name_of(subject) == expected


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "DEFAULT/U",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/L",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/L",
        "RULE:^CN=(.*?$/L",
        "RULE:^CN=(/$1/",
        "DEFAULT, RULE:x",
    ],
)
def test_a_rule_that_cannot_be_read_is_named(rules: str) -> None:
    with pytest.raises(ValueError, match=r"expected DEFAULT or RULE|pattern"):
        PrincipalRules(rules)
