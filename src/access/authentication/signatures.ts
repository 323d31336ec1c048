/** Signs statements that are checked for longer than a token lives, such as published manifests, as compact JWS (RFC 7515). */

import { CompactSign, importJWK } from 'jose'
import { ALGORITHM, type SigningKeys } from './signing-keys.ts'

/**
 * @param typ media type without `application/`; any but that of tokens, so that no verifier takes a statement for a token
 * @param claims without `exp`, `sub` and `aud`, for the same reason
 * @returns the JWS, by the key that signs tokens now
 */
export async function signStatement(
  signingKeys: SigningKeys,
  typ: string,
  claims: Readonly<Record<string, unknown>>,
): Promise<string> {
  const {
    keys: [jwk],
  } = await signingKeys.current()
  return new CompactSign(Buffer.from(JSON.stringify(claims)))
    .setProtectedHeader({ alg: ALGORITHM, typ, ...(jwk.kid !== undefined && { kid: jwk.kid }) })
    .sign(await importJWK(jwk, ALGORITHM))
}
