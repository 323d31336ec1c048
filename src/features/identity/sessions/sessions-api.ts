/** Sessions and consents: listed and ended by the account or user that they are of, and by admins. */

import Type, { type Static } from 'typebox'
import {
  adminOperation,
  callerOperation,
  Input,
  OptionalTime,
  Ref,
  Time,
} from '../../../access/operation-builders.ts'
import { privilege } from '../../../access/privileges.ts'
import type { AdminScope, CallerScope } from '../../../access/scope.ts'
import { component, exampleOf } from '../../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../../core/components/examples.ts'
import { idPattern } from '../../../core/ids.ts'
import { ADMINS, EVERYBODY } from '../../../core/policy.ts'
import { notFound, Problem } from '../../../core/problem.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { findRow } from '../../operation-helpers.ts'
import { issuerAdminOf } from '../identity-services.ts'
import type { GivenAccess } from '../issuer/grants.ts'
import { deleteSession, Session, selectSessions } from './sessions.ts'

const accessOf = privilege('identity.own')

const Consent = component(
  'Consent',
  Type.Object({
    id: Type.String(),
    client_id: Type.String(),
    client_name: Type.String(),
    registered: Type.Boolean({
      description: 'True if the client registered itself: its name is not verified.',
    }),
    resource: Type.String({ description: 'The REST API, or the MCP server that the client may use.' }),
    scopes: Type.Array(Type.String()),
    created_at: Time,
    last_used_at: OptionalTime,
    expires_at: Time,
  }),
  {
    id: 'grant-of-the-assistant',
    client_id: EXAMPLE_ID.client,
    client_name: 'Assistant',
    registered: true,
    resource: 'https://api.tennis.example/v1',
    scopes: ['collections:read'],
    created_at: EXAMPLE_TIME.created,
    last_used_at: EXAMPLE_TIME.updated,
    expires_at: EXAMPLE_TIME.later,
  },
)

const OwnSession = component(
  'OwnSession',
  Type.Interface([Session], {
    current: Type.Boolean({ description: 'True if it is the session of this request.' }),
  }),
  { ...exampleOf(Session), current: true },
)

const Ended = component('Ended', Type.Object({ id: Type.String(), ended: Type.Literal(true) }), {
  id: EXAMPLE_ID.session,
  ended: true,
})

const PERSON = new RegExp(`${idPattern('acct')}|${idPattern('usr')}`)

/**
 * The account or user that calls. A token that is restricted to scopes, such as one of an app that may only read documents, neither
 * sees nor ends where its holder is signed in.
 * @throws Problem `forbidden`
 */
function personOf({ principal }: CallerScope): string {
  const { subject, kind, seen, roles, scopes } = principal
  if (kind !== 'token' || !PERSON.test(subject))
    throw new Problem('forbidden', {
      detail: `Only accounts and users of this platform have sessions. You sent ${seen}.`,
      hint: 'Send the token of a person who has signed in.',
      adminHint:
        'Send the token of a person who has signed in; on a command line, `export TENON_TOKEN=$(npx tenon login)`.',
    })
  if (scopes !== undefined || roles.every((role) => role === 'anon'))
    throw new Problem('forbidden', { detail: 'The token is restricted to scopes: sign in without `scope`.' })
  return subject
}

export const listOwnSessions = callerOperation({
  name: 'me.list_sessions',
  summary: 'List your sessions, the latest first',
  roles: EVERYBODY,
  input: Input({}),
  output: Type.Object({
    data: Type.Array(OwnSession),
  }),
  http: { method: 'GET', path: '/v1/me/sessions' },
  run: async (scope) => {
    const subject = personOf(scope)
    const current = scope.principal.claims?.sessionId
    const sessions = await accessOf(scope).sessions.list(subject)
    return { data: sessions.map((session) => ({ ...session, current: session.id === current })) }
  },
})

export const endOwnSession = callerOperation({
  name: 'me.end_session',
  summary: 'End one of your sessions: its refresh tokens at once, its access tokens within 5 s',
  roles: EVERYBODY,
  input: Input({ id: Ref('session') }),
  output: Ended,
  http: { method: 'DELETE', path: '/v1/me/sessions/{id}' },
  run: async (scope, { id }) => {
    if (!(await accessOf(scope).sessions.end(personOf(scope), id))) throw notFound('session')
    return { id, ended: true as const }
  },
})

export const listOwnConsents = callerOperation({
  name: 'me.list_consents',
  summary: 'List the clients that may act for you, such as MCP hosts, the newest first; at most 100',
  roles: EVERYBODY,
  input: Input({}),
  output: Type.Object({ data: Type.Array(Consent) }),
  http: { method: 'GET', path: '/v1/me/consents' },
  run: async (scope) => {
    const { grants } = await accessOf(scope).grants.list({ id: personOf(scope) })
    return { data: grants.map(consentOf) }
  },
})

export const endOwnConsent = callerOperation({
  name: 'me.end_consent',
  summary:
    'Revoke what you have allowed a client: its refresh tokens end at once, its access tokens within 5 s',
  roles: EVERYBODY,
  input: Input({ id: Ref('consent') }),
  output: Ended,
  http: { method: 'DELETE', path: '/v1/me/consents/{id}' },
  run: async (scope, { id }) => {
    const ended = await accessOf(scope).grants.end({ id: personOf(scope) }, id)
    if (ended.length === 0) throw notFound('consent')
    return { id, ended: true as const }
  },
})

const consentOf = (given: GivenAccess) => ({
  ...{ id: given.id, client_id: given.clientId, client_name: given.clientName, registered: given.registered },
  ...{ resource: given.resource, scopes: given.access.map(({ scope }) => scope) },
  ...{ created_at: given.givenAt, last_used_at: given.renewedAt, expires_at: given.endsAt },
})

/** The operations with which admins manage sessions of one kind of person. */
const forAdmins = (noun: 'account' | 'user') => {
  const find = (scope: AdminScope, id: string) => {
    const statement =
      noun === 'account'
        ? sql`select id from accounts where id = ${id}`
        : sql`select id from users where id = ${id}`
    return findRow(scope, noun, statement)
  }
  return {
    list: adminOperation({
      name: `${noun}.list_sessions`,
      summary: `List the sessions of ${noun === 'account' ? 'an account' : 'a user'}, the latest first`,
      roles: ADMINS,
      input: Input({ id: Ref(noun) }),
      output: Type.Object({ data: Type.Array(Session) }),
      http: { method: 'GET', path: `/v1/${noun}s/{id}/sessions` },
      run: async (scope, { id }) => {
        await find(scope, id)
        return { data: await scope.rows<Static<typeof Session>>(selectSessions(sql`${id}`)) }
      },
    }),
    end: adminOperation({
      name: `${noun}.end_session`,
      summary: `End a session of ${noun === 'account' ? 'an account' : 'a user'}: its refresh tokens at once, its access tokens within 5 s`,
      roles: ADMINS,
      input: Input({ id: Ref(noun), session_id: Ref('session') }),
      output: Ended,
      http: { method: 'DELETE', path: `/v1/${noun}s/{id}/sessions/{session_id}` },
      run: async (scope, { id, session_id }) => {
        await find(scope, id)
        if ((await scope.row(deleteSession(sql`${id}`, session_id))) === undefined) throw notFound('session')
        issuerAdminOf(scope).forgetSubject(id)
        return { id: session_id, ended: true as const }
      },
    }),
  }
}

export const accountSessions = forAdmins('account')
export const userSessions = forAdmins('user')
