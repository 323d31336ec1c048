/** The embedded issuer's keys. */

import Type from 'typebox'
import { OPERATORS } from '../core/policy.ts'
import { issuerAdminOf } from '../platform/capabilities.ts'
import { Input, onStructure } from './kinds.ts'

export const rotateIssuerKeys = onStructure({
  name: 'issuer.rotate_keys',
  summary: 'Sign with a new key; older ones verify until their tokens have run out, or end at once',
  roles: OPERATORS,
  input: Input({
    revoke: Type.Optional(
      Type.Boolean({ description: 'Older keys verify no more: every token of the issuer ends within 5 s.' }),
    ),
  }),
  output: Type.Object({ kid: Type.String() }),
  http: { method: 'POST', path: '/v1/issuer/rotate-keys', body: '*' },
  run: async (scope, { revoke = false }) => ({ kid: await issuerAdminOf(scope).rotateKeys(revoke) }),
})
