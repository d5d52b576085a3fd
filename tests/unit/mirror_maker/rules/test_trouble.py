"""Every trouble has a policy, and the topology file has the same ones."""

from __future__ import annotations

from dataclasses import fields

from mirror_maker.rules.trouble import REFUSALS, Policies, Trouble
from mirror_maker.settings import LinkTuning
from topology.model import Link


def test_every_trouble_has_a_policy() -> None:
    policies = Policies(out_of_range="skip", unauthorized="fail")
    assert policies.of(Trouble.OUT_OF_RANGE) == "skip"
    assert policies.of(Trouble.UNAUTHORIZED) == "fail"
    assert {policies.of(trouble) for trouble in Trouble} == {"fail", "pause", "skip"}
    assert {field.name for field in fields(Policies)} == set(Trouble) - {"internal"}


def test_a_defect_of_the_mirror_is_not_retried_and_not_skipped() -> None:
    assert Policies().of(Trouble.INTERNAL) == "fail"


def test_a_refused_batch_is_never_a_passing_trouble() -> None:
    assert set(REFUSALS.values()) == {
        Trouble.REJECTED, Trouble.TOO_LARGE, Trouble.TIMESTAMP, Trouble.UNSUPPORTED_CODEC,
    }  # fmt: skip


def test_the_topology_file_has_the_same_troubles_and_settings() -> None:
    assert Link.model_fields["on"].annotation is Policies
    assert Link.model_fields["settings"].annotation is LinkTuning
