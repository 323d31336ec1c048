/** Shows the caller as the platform sees it: subject, roles, scopes, tenant. */

import Type from 'typebox'
import { callerOperation, Id, Input, OptionalTime } from '../../access/operation-builders.ts'
import { PAYLOADS_SCOPE } from '../../access/payload-access.ts'
import { component } from '../../core/components/component.ts'
import { EXAMPLE_ID } from '../../core/components/examples.ts'
import { domainOf, EVERYBODY } from '../../core/policy.ts'

const Me = component(
  'Caller',
  Type.Object({
    subject: Type.String({ description: 'Id of the API key, or the subject of the token.' }),
    kind: Type.Enum(['api_key', 'token', 'gateway']),
    roles: Type.Array(Type.Enum([...EVERYBODY])),
    domains: Type.Array(Type.Enum(['structural_admin', 'data_access']), {
      description: 'Privilege domains in which the caller may call routes.',
    }),
    tenant_id: Type.Union([Id('ten'), Type.Null()]),
    workspace_id: Type.Union([Id('ws'), Type.Null()]),
    bucket: Type.Union([Type.String(), Type.Null()], {
      description: 'Bucket of the workspace. `null`: it has none, or the credential is of no workspace.',
    }),
    s3_endpoint: Type.Union([Type.String(), Type.Null()], {
      description:
        'URL at which clients of S3 reach the bucket, with a storage key. `null`: there is no bucket.',
    }),
    key: Type.Union([
      Type.Object({
        id: Id('key'),
        kind: Type.Enum(['anon', 'service', 'storage']),
        last4: Type.String(),
        expires_at: OptionalTime,
      }),
      Type.Null(),
    ]),
    user: Type.Union(
      [
        Type.Object({
          id: Type.String(),
          email: Type.String(),
          email_verified: Type.Boolean(),
          claims: Type.Record(Type.String(), Type.Unknown()),
        }),
        Type.Null(),
      ],
      { description: 'End user, for the role `user`. `null`: another role.' },
    ),
    sees_payloads: Type.Boolean({
      description: 'True if the caller sees payloads of executions and runs that others have started.',
    }),
    scopes: Type.Array(Type.String(), {
      description: 'Scopes that restrict the roles; empty if unrestricted.',
    }),
  }),
  {
    subject: EXAMPLE_ID.key,
    kind: 'api_key',
    roles: ['service'],
    domains: ['data_access'],
    tenant_id: EXAMPLE_ID.tenant,
    workspace_id: EXAMPLE_ID.workspace,
    bucket: 'bookings-4z3v73kk0e00',
    s3_endpoint: 'https://api.tennis.example/s3',
    key: { id: EXAMPLE_ID.key, kind: 'service', last4: '73kk', expires_at: null },
    user: null,
    sees_payloads: true,
    scopes: [],
  },
)

export const getMe = callerOperation({
  name: 'me.get',
  summary: 'Read your own identity, roles and scopes',
  roles: EVERYBODY,
  input: Input({}),
  output: Me,
  http: { method: 'GET', path: '/v1/me' },
  run: async ({ principal, publicUrl }) => {
    const { subject, kind, roles, tenantId, workspaceId, bucket, key, user, scopes } = principal
    const seesPayloads = principal.seesPayloads === true || scopes?.has(PAYLOADS_SCOPE) === true
    return {
      subject,
      kind,
      roles: [...roles],
      domains: [...new Set(roles.map(domainOf))],
      tenant_id: tenantId ?? null,
      workspace_id: workspaceId ?? null,
      bucket: bucket ?? null,
      s3_endpoint: bucket === undefined ? null : `${publicUrl}/s3`,
      key: key === undefined ? null : { ...key },
      user:
        user === undefined
          ? null
          : {
              id: user.id,
              email: user.email,
              email_verified: user.emailVerified,
              claims: { ...user.claims },
            },
      sees_payloads: seesPayloads,
      scopes: [...(scopes ?? [])].sort(),
    }
  },
})
