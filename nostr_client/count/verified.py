"""The zaps that the recipients' wallets signed: a part of what receipts claim. Pure.

A receipt that a wallet signed does not mean that anybody paid: the wallet may write any receipt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from nostr_client.merge import Figure
from nostr_client.wallets import Wallet, WalletStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nostr_client.merge import Merged, Receipt


class VerifiedZaps(msgspec.Struct, frozen=True, kw_only=True):
    """How many receipts the recipients' wallets signed, and their sum in millisats.

    Both are lower bounds, and None where not one wallet's key is known though there are receipts.
    `wallets`: one for each recipient, those with the largest claimed sums first.
    """

    receipts: Figure | None
    amount: Figure | None
    wallets: tuple[Wallet, ...] = ()

    @property
    def unknown(self) -> tuple[Wallet, ...]:
        """The wallets whose answer is missing: nothing that they signed can be told."""
        answered = (WalletStatus.OK, WalletStatus.NO_ZAPS)
        return tuple(one for one in self.wallets if one.status not in answered)

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON values; null, not 0, where no key is known."""
        return {
            "receipts": None if self.receipts is None else self.receipts.value,
            "amount": None if self.amount is None else self.amount.value,
            "wallets": [wallet.to_dict() for wallet in self.wallets],
        }


def recipients_of(merged: Merged) -> list[str]:
    """Whom the receipts of a number pay, by what they are claimed to have got, most first."""
    sums: dict[str, int] = {}
    for receipt, worth in _receipts(merged).values():
        who = receipt.receiver.hex()
        sums[who] = sums.get(who, 0) + worth
    return sorted(sums, key=lambda who: (-sums[who], who))


def verified_zaps(merged: Merged, wallets: Sequence[Wallet]) -> VerifiedZaps | None:
    """What the wallets signed of the receipts behind a number; None where none were read."""
    if merged.amount is None:
        return None
    found = _receipts(merged)
    known = {wallet.recipient: wallet for wallet in wallets if wallet.is_known}
    if found and not known:
        return VerifiedZaps(receipts=None, amount=None, wallets=tuple(wallets))
    payments = {
        receipt.payment or id: worth
        for id, (receipt, worth) in found.items()
        if _signed(receipt, known)
    }
    signed = list(payments.values())
    return VerifiedZaps(
        receipts=Figure.at_least(len(signed)),
        amount=Figure.at_least(sum(signed)),
        wallets=tuple(wallets),
    )


def _signed(receipt: Receipt, wallets: dict[str, Wallet]) -> bool:
    wallet = wallets.get(receipt.receiver.hex())
    return wallet is not None and wallet.signed(receipt.signer.hex(), receipt.created_at)


def _receipts(merged: Merged) -> dict[bytes, tuple[Receipt, int]]:
    """The receipts that were counted, by id, each with its worth in millisats."""
    found: dict[bytes, tuple[Receipt, int]] = {}
    for claim in merged.claims:
        reading = claim.reading
        if reading is None or not claim.answered or reading.receipts is None:
            continue
        worth = reading.amounts or {}
        found |= {id: (one, worth.get(id, 0)) for id, one in reading.receipts.items()}
    return found
