/** Data tokens: for some minutes, an administrator has access to the data of one workspace, and each request is the administrator's. */

import { randomUUID } from 'node:crypto'
import Type from 'typebox'
import type { Claims } from '../../access/authentication/claims.ts'
import { dataTokenClaim } from '../../access/authentication/token-verifier.ts'
import { adminOperation, Id, Input, Ref, Time } from '../../access/operation-builders.ts'
import { operatorsRefused, REFUSES_OPERATORS_COLUMN } from '../../access/operator-refusal.ts'
import type { AdminScope } from '../../access/scope.ts'
import { component } from '../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../core/components/examples.ts'
import { ADMINS, isReadScope } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { SCOPES } from '../key-operations.ts'
import { fieldProblem, findRow } from '../operation-helpers.ts'
import { findInactiveReason } from '../tenants/active.ts'
import { issuerAdminOf } from './identity-services.ts'
import { checkedScopes } from './keys/key.ts'
import { ISSUER_LIMITS } from './limits.ts'
import { requireShareOfPayloads } from './payload-grants.ts'

/** Administrators decide approvals as who they are, by `approval.decide`. */
const APPROVING = 'flows:approve'

const DataToken = component(
  'DataToken',
  Type.Object({
    token: Type.String({
      description:
        'Data token, shown only once. Send it as `Authorization: Bearer`, to routes on data alone.',
    }),
    tenant_id: Id('ten'),
    workspace_id: Id('ws'),
    role: Type.Enum(['service', 'viewer'], {
      description: 'Role of the token. `viewer`: all of its scopes read, and it changes nothing.',
    }),
    scopes: Type.Array(Type.String()),
    expires_at: Time,
  }),
  {
    ...{ token: 'shown-once', tenant_id: EXAMPLE_ID.tenant, workspace_id: EXAMPLE_ID.workspace },
    ...{ role: 'viewer', scopes: ['collections:read'], expires_at: EXAMPLE_TIME.later },
  },
)

export const createDataToken = adminOperation({
  name: 'data_token.create',
  summary: 'Create a token for the data of one workspace, which acts as you and ends after 10 minutes',
  roles: ADMINS,
  input: Input({
    id: Ref('workspace'),
    scopes: Type.Array(Type.String({ minLength: 1, maxLength: 100 }), {
      minItems: 1,
      maxItems: ISSUER_LIMITS.dataTokenScopesMax,
      description: `Scopes of the token, all of which you may have. Possible scopes: ${SCOPES.filter((scope) => scope !== APPROVING).join(', ')}.`,
    }),
  }),
  output: DataToken,
  http: { method: 'POST', path: '/v1/workspaces/{id}/data-token', body: '*', status: () => 201 },
  auditDetail: ({ role, scopes, expires_at }) => ({ role, scopes: scopes.join(' '), expires_at }),
  run: async (scope, { id, scopes: asked }) => {
    const claims = claimsOfHolder(scope)
    const scopes = checkedScopes(asked, 'service')
    if (scopes.includes(APPROVING))
      throw fieldProblem(
        'scopes',
        `A data token cannot have ${APPROVING}: decide approvals with your own token.`,
      )
    requireShareOfPayloads(scope, scopes)
    const place = await findPlace(scope, id)
    const role = scopes.every(isReadScope) ? ('viewer' as const) : ('service' as const)
    const nowMs = Date.now()
    const exp = Math.floor(endOf(claims, nowMs) / 1_000)
    const token = await issuerAdminOf(scope).signForCaller({
      ...{ ...place, scope: scopes.join(' '), exp, iat: Math.floor(nowMs / 1_000), jti: randomUUID() },
      ...sharedClaims(claims),
      ...dataTokenClaim({
        ...{ role, holderRole: scope.actor.role },
        ...(claims.tokenId !== undefined && { parent: claims.tokenId }),
        ...(claims.proof !== undefined && { proof: claims.proof }),
      }),
    })
    return { token, ...place, role, scopes, expires_at: new Date(exp * 1_000).toISOString() }
  },
})

/**
 * The claims of the caller's token.
 * @throws Problem `forbidden` for a machine that is not of operators: it has the role `service` itself, or a key
 */
function claimsOfHolder({ actor: { credential, role } }: AdminScope): Claims {
  const claims = credential?.claims as Claims | undefined
  if (claims !== undefined && (claims.proof?.isPerson === true || role === 'operator')) return claims
  throw new Problem('forbidden', {
    detail: 'A data token stands for a person who has signed in. You are a machine client.',
    hint: 'Use an API key, or a machine client with the role service.',
  })
}

/** What ends the token of the caller ends this one: its session with the grant, its account, its client. */
const sharedClaims = ({ clientId, grantId, sessionId, credential }: Claims) => ({
  ...(clientId !== undefined && { client_id: clientId }),
  ...(grantId !== undefined && { grant_id: grantId }),
  ...(sessionId !== undefined && { sid: sessionId }),
  ...(credential !== undefined && { credential }),
})

/** Of a token without a session here, only its own end is known. @returns milliseconds since 1970 */
function endOf({ grantId, expiresMs }: Claims, nowMs: number): number {
  const usual = nowMs + ISSUER_LIMITS.dataTokenSeconds * 1_000
  return grantId === undefined ? Math.min(usual, expiresMs) : usual
}

interface Place {
  readonly tenant_id: string
  readonly workspace_id: string
}

/** @throws Problem `not_found` for a workspace that the caller does not reach, `forbidden` for one that refuses operators, and if it is not active */
async function findPlace(scope: AdminScope, id: string): Promise<Place> {
  const { refusesOperators, ...place } = await findRow<Place & { readonly refusesOperators: boolean }>(
    scope,
    'workspace',
    sql`select w.tenant_id, w.id as workspace_id, ${REFUSES_OPERATORS_COLUMN}
      from workspaces w left join services s on s.tenant_id = w.tenant_id and s.workspace_id = w.id where w.id = ${id}`,
  )
  const inactive = await findInactiveReason(scope, id)
  if (inactive !== undefined) throw inactive
  if (refusesOperators && scope.actor.role === 'operator') throw operatorsRefused()
  return place
}
