"""An issuer of tokens for OAUTHBEARER: its keys, its key set, and whatever tokens a test wants."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, Key, KeySet, RSAKey


class Issuer:
    """Signs with its newest key."""

    def __init__(self) -> None:
        self._keys: list[Key] = []
        self.rotate()

    def rotate(self, *, curve: str | None = "P-256") -> None:
        """Take a new key: of an elliptic curve, or RSA."""
        parameters: Any = {"kid": f"key-{len(self._keys) + 1}", "use": "sig"}
        made = (
            RSAKey.generate_key(2048, parameters)
            if curve is None
            else ECKey.generate_key(curve, parameters)
        )
        self._keys.append(made)

    def key_set(self, *, last: int | None = None) -> KeySet:
        """Return the public keys, or the `last` ones."""
        chosen = self._keys if last is None else self._keys[-last:]
        return KeySet.import_key_set(json.loads(self.key_set_json(chosen)))

    def key_set_json(self, keys: list[Key] | None = None) -> str:
        chosen = self._keys if keys is None else keys
        return json.dumps({"keys": [each.as_dict(private=False) for each in chosen]})

    def write_key_set(self, path: Path) -> None:
        """Replace the file in one step."""
        new = path.with_suffix(".new")
        new.write_text(self.key_set_json())
        new.replace(path)

    def token(
        self, name: str | None, *, seconds: float = 600, header: Mapping[str, Any] = {}, **more: Any
    ) -> str:
        """Return a token for a user; a claim of None is left out."""
        key, now_s = self._keys[-1], int(time.time())
        claims = {"sub": name, "iat": now_s, "exp": now_s + seconds, **more}
        algorithm = "RS256" if isinstance(key, RSAKey) else "ES256"
        return jwt.encode(
            {"alg": algorithm, "kid": key.kid, **header},
            {claim: value for claim, value in claims.items() if value is not None},
            key,
        )
