"""The keys with which people's wallets sign zap receipts (NIP-57), and when each was seen.

Profiles and wallets' answers enter; keys with the times of their use leave. Start with `keys`.
"""

from __future__ import annotations

from nostr_client.count.wallets.keys import Sighting, Wallet, WalletStatus

__all__ = ["Sighting", "Wallet", "WalletStatus"]
