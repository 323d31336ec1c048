/** The codec server of the Temporal UI (its protocol: `payloads` in, `payloads` out, at `/decode` and `/encode`). */

import Type from 'typebox'
import { AnyName, adminOperation, Input, Ref } from '../../access/operation-builders.ts'
import { payloadsOf } from '../../access/scope-services.ts'
import { component } from '../../core/components/component.ts'
import { TENANT_ADMINS, VIEWERS } from '../../core/policy.ts'
import { tenantsOf } from '../../infra/temporal/payload-reader.ts'
import { resolveTenant } from '../tenants/jobs.ts'
import { FLOW_LIMITS } from './limits.ts'

/**
 * True for base64 in the standard or URL alphabet, with or without padding (RFC 4648 §4, §5; proto3 JSON accepts all four).
 * Not a pattern with groups, which would overflow the stack on a few megabytes.
 */
function isBase64(text: unknown): boolean {
  if (typeof text !== 'string') return false
  if (/[+/]/.test(text) && /[-_]/.test(text)) return false
  return text.endsWith('=') ? text.length % 4 === 0 : text.length % 4 !== 1
}

const Base64 = Type.Refine(
  Type.String({ pattern: '^[A-Za-z0-9+/_-]*={0,2}$' }),
  isBase64,
  () => 'must be base64: whole groups of one alphabet, right padding',
)

const Metadata = Type.Record(AnyName, Base64, { propertyNames: { maxLength: 200 } })

const Payloads = Type.Array(
  Type.Object(
    {
      metadata: Type.Optional(Metadata),
      data: Type.Optional(Base64),
    },
    { description: 'Payload of the Temporal API as JSON, with bytes in base64.' },
  ),
  { maxItems: FLOW_LIMITS.codec.payloadsMax },
)

const Output = component('TemporalPayloads', Type.Object({ payloads: Payloads }), {
  payloads: [{ metadata: { encoding: 'anNvbi9wbGFpbg==' }, data: 'e30=' }],
})

export const decodePayloads = adminOperation({
  name: 'codec.decode',
  summary: 'Decrypt Temporal payloads; admins decrypt those of their own tenant or workspace',
  roles: VIEWERS,
  reads: true,
  payloads: 'refused',
  reveals: ({ payloads }) => tenantsOf(payloads),
  input: Input({
    payloads: Payloads,
    preserveStorageRefs: Type.Optional(
      Type.Boolean({
        description:
          'True if the Temporal UI asks to preserve references to external storage of Temporal; ignored.',
      }),
    ),
  }),
  output: Output,
  http: {
    method: 'POST',
    path: '/v1/codec/decode',
    query: ['preserveStorageRefs'],
    body: '*',
    bodyBytesMax: FLOW_LIMITS.codec.bodyBytesMax,
  },
  run: async (scope, { payloads }) => ({ payloads: await payloadsOf(scope).decode(payloads) }),
})

export const encodePayloads = adminOperation({
  name: 'codec.encode',
  summary: 'Encrypt payloads for Temporal with the key of a tenant',
  roles: TENANT_ADMINS,
  reads: true,
  input: Input({ payloads: Payloads, tenant_id: Type.Optional(Ref('tenant')) }),
  output: Output,
  http: { method: 'POST', path: '/v1/codec/encode', body: '*', bodyBytesMax: FLOW_LIMITS.codec.bodyBytesMax },
  run: async (scope, { payloads, tenant_id }) => ({
    payloads: await payloadsOf(scope).encode(resolveTenant(scope, tenant_id), payloads),
  }),
})
