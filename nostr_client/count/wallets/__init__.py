"""Which keys the wallets of people sign zap receipts by (NIP-57), with the times they were seen."""

from __future__ import annotations

from nostr_client.count.wallets.keys import Sighting, Wallet, WalletStatus

__all__ = ["Sighting", "Wallet", "WalletStatus"]
