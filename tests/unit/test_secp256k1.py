"""Both bindings of libsecp256k1: BIP-340's vectors, real events, and equal signatures."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import pytest

from nostr_client.codecs import keys
from nostr_client.codecs.event import parse_event
from nostr_client.codecs.keys import KeySigner, VerifiedEvent, verify_many
from nostr_client.codecs.secp256k1.by_btclib import Btclib
from nostr_client.codecs.secp256k1.by_coincurve import Coincurve
from tests.conftest import shared_path
from tests.unit.strategies import signed

if TYPE_CHECKING:
    from nostr_client.codecs.secp256k1 import Binding

BINDINGS = (Coincurve(), Btclib())
each_binding = pytest.mark.parametrize("binding", BINDINGS, ids=lambda one: one.name)


class Vector(NamedTuple):
    """A row of BIP-340's table that has a message of 32 bytes, as events have."""

    number: int
    secret: str
    pubkey: str
    aux: str
    message: str
    sig: str
    holds: bool


P_1 = "DFF1D77F2A671C5F36183726DB2341BE58FEAE1DA2DECED843240F7B502BA659"
M_1 = "243F6A8885A308D313198A2E03707344A4093822299F31D0082EFA98EC4E6C89"
R_5 = "6CFF5C3BA86C69EA4B7376F31A9BCB4F74C1976089B2D9963DA2E5543E177769"
S_5 = "69E89B4C5564D00349106B8497785DD7D1D713A8AE82B32FA79D5F7FC407D39B"

VECTORS = [
    Vector(
        0, f"{3:064X}", "F9308A019258C31049344F85F89D5229B531C845836F99B08601F113BCE036F9",
        "0" * 64, "0" * 64,
        "E907831F80848D1069A5371B402410364BDF1C5F8307B0084C55F1CE2DCA8215"
        "25F66A4A85EA8B71E482A74F382D2CE5EBEEE8FDB2172F477DF4900D310536C0", True,
    ),
    Vector(
        1, "B7E151628AED2A6ABF7158809CF4F3C762E7160F38B4DA56A784D9045190CFEF", P_1,
        f"{1:064X}", M_1,
        "6896BD60EEAE296DB48A229FF71DFE071BDE413E6D43F917DC8DCF8C78DE3341"
        "8906D11AC976ABCCB20B091292BFF4EA897EFCB639EA871CFA95F6DE339E4B0A", True,
    ),
    Vector(
        2, "C90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B14E5C9",
        "DD308AFEC5777E13121FA72B9CC1B7CC0139715309B086C960E18FD969774EB8",
        "C87AA53824B4D7AE2EB035A2B5BBBCCC080E76CDC6D1692C4B0B62D798E6D906",
        "7E2D58D8B3BCDF1ABADEC7829054F90DDA9805AAB56C77333024B9D0A508B75C",
        "5831AAEED7B44BB74E5EAB94BA9D4294C49BCF2A60728D8B4C200F50DD313C1B"
        "AB745879A5AD954A72C45A91C3A51D3C7ADEA98D82F8481E0E1E03674A6F3FB7", True,
    ),
    Vector(
        3, "0B432B2677937381AEF05BB02A66ECD012773062CF3FA2549E44F58ED2401710",
        "25D1DFF95105F5253C4022F628A996AD3A0D95FBF21D468A1B33F8C160D8F517",
        "F" * 64, "F" * 64,
        "7EB0509757E246F19449885651611CB965ECC1A187DD51B64FDA1EDC9637D5EC"
        "97582B9CB13DB3933705B32BA982AF5AF25FD78881EBB32771FC5922EFC66EA3", True,
    ),
    Vector(
        4, "", "D69C3509BB99E412E68B0FE8544E72837DFA30746D8BE2AA65975F29D22DC7B9", "",
        "4DF3C3F68FCC83B27E9D42C90431A72499F17875C81A599B566C9889B9696703",
        "00000000000000000000003B78CE563F89A0ED9414F5AA28AD0D96D6795F9C63"
        "76AFB1548AF603B3EB45C9F8207DEE1060CB71C04E80F593060B07D28308D7F4", True,
    ),
    # the key is not on the curve
    Vector(
        5, "", "EEFDEA4CDB677750A420FEE807EACF21EB9898AE79B9768766E4FAA04A2D4A34", "",
        M_1, R_5 + S_5, False,
    ),
    # the y of R is odd
    Vector(
        6, "", P_1, "", M_1,
        "FFF97BD5755EEEA420453A14355235D382F6472F8568A18B2F057A1460297556"
        "3CC27944640AC607CD107AE10923D9EF7A73C643E166BE5EBEAFA34B1AC553E2", False,
    ),
    # the message is negated
    Vector(
        7, "", P_1, "", M_1,
        "1FA62E331EDBC21C394792D2AB1100A7B432B013DF3F6FF4F99FCB33E0E1515F"
        "28890B3EDB6E7189B630448B515CE4F8622A954CFE545735AAEA5134FCCDB2BD", False,
    ),
    # s is negated
    Vector(
        8, "", P_1, "", M_1,
        R_5 + "961764B3AA9B2FFCB6EF947B6887A226E8D7C93E00C5ED0C1834FF0D0C2E6DA6", False,
    ),
    # sG - eP is infinite, with x taken for 0, then for 1
    Vector(
        9, "", P_1, "", M_1,
        f"{0:064X}" "123DDA8328AF9C23A94C1FEECFD123BA4FB73476F0D594DCB65C6425BD186051", False,
    ),
    Vector(
        10, "", P_1, "", M_1,
        f"{1:064X}" "7615FBAF5AE28864013C099742DEADB4DBA87F11AC6754F93780D5A1837CF197", False,
    ),
    # r is no coordinate of a point
    Vector(
        11, "", P_1, "", M_1,
        "4A298DACAE57395A15D0795DDBFD1DCB564DA82B0F269BC70A74F8220429BA1D" + S_5, False,
    ),
    # r is the size of the field
    Vector(12, "", P_1, "", M_1, f"{2**256 - 2**32 - 977:064X}" + S_5, False),
    # s is the order of the curve
    Vector(
        13, "", P_1, "", M_1,
        R_5 + "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141", False,
    ),
    # the key is no coordinate: it is beyond the size of the field
    Vector(14, "", f"{2**256 - 2**32 - 976:064X}", "", M_1, R_5 + S_5, False),
]  # fmt: skip


def holds(binding: Binding, pubkey: bytes, message: bytes, sig: bytes) -> bool:
    """Whether a signature holds; a key that is no point is the ValueError that `keys` takes."""
    try:
        return binding.public_key(pubkey).verify(sig, message)
    except ValueError:
        return False


@each_binding
@pytest.mark.parametrize("vector", VECTORS, ids=lambda one: str(one.number))
def test_bip340_vectors(binding: Binding, vector: Vector) -> None:
    message, sig = bytes.fromhex(vector.message), bytes.fromhex(vector.sig)
    assert holds(binding, bytes.fromhex(vector.pubkey), message, sig) is vector.holds
    if vector.secret:
        key = binding.secret_key(bytes.fromhex(vector.secret))
        assert key.pubkey.hex().upper() == vector.pubkey
        assert key.secret.hex().upper() == vector.secret
        assert key.sign(message, bytes.fromhex(vector.aux)) == sig


@each_binding
@pytest.mark.parametrize("size", [0, 63, 65])
def test_a_signature_of_another_length_does_not_hold(binding: Binding, size: int) -> None:
    assert not holds(binding, bytes.fromhex(P_1), bytes(32), bytes(size))


@each_binding
def test_all_shared_events_verify_and_a_forged_one_does_not(
    binding: Binding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "BINDING", binding)
    keys._public_key.cache_clear()
    lines = shared_path("data/events.jsonl").read_bytes().splitlines()
    events = [parse_event(line) for line in lines]
    results = verify_many(events)
    assert [one.event for one in results if isinstance(one, VerifiedEvent)] == events
    for one, other in pairwise(events[:50]):
        if one.id != other.id:
            sig = bytes.fromhex(other.sig)
            assert not holds(binding, bytes.fromhex(one.pubkey), bytes.fromhex(one.id), sig)
    keys._public_key.cache_clear()


def test_both_make_the_same_signatures(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for binding in BINDINGS:
        monkeypatch.setattr(keys, "BINDING", binding)
        made.append([signed(seed, content="é").event for seed in range(20)])
    assert made[0] == made[1]


@pytest.mark.parametrize("lacking", ["", "coincurve"])
def test_coincurve_comes_first_and_btclib_serves_without_it(lacking: str) -> None:
    code = (
        "import sys\n"
        "if sys.argv[1]: sys.modules[sys.argv[1]] = None\n"
        "from nostr_client.codecs.keys import BINDING, KeySigner\n"
        "print(BINDING.name, KeySigner(bytes([1]) * 32).pubkey)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, lacking],
        capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    name = "btclib_libsecp256k1" if lacking else "coincurve"
    assert done.stdout.split() == [name, KeySigner(bytes([1]) * 32).pubkey]
