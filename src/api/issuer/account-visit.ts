/** A visit of a page of the own account: whose pages they are, the session, and the password. */

import type { FastifyRequest } from 'fastify'
import { isMultiFactor } from '../../access/authentication/claims.ts'
import type { HolderSession } from '../../access/authentication/holder-session.ts'
import { networkOf } from '../../access/rate-limit/memory-buckets.ts'
import type { Account } from '../../features/identity/accounts/accounts-store.ts'
import { isAt, type SignInPlace } from '../../features/identity/factors/factor-owner.ts'
import type { EmbeddedIssuer } from '../../features/identity/issuer/embedded-issuer.ts'
import { findPerson } from '../../features/identity/issuer/subjects.ts'
import { LOGIN_ERRORS } from '../../features/identity/pages/pages.ts'
import type { Refusal } from '../../features/identity/pages/user-pages.ts'
import type { UserWorkspace } from '../../features/identity/users/users-store.ts'
import { credentialsIn, type Form, requesterOf } from './forms.ts'

/** A request at the page, for the users of one workspace or for accounts. */
export interface Visit {
  readonly issuer: EmbeddedIssuer
  readonly place: SignInPlace
  /** Of the users. */
  readonly workspace?: UserWorkspace
  readonly path: string
  readonly request: FastifyRequest
  readonly session: HolderSession
  /** The id of the session that the request has begun. */
  readonly begun?: string
}

type SessionVisit = Pick<Visit, 'issuer' | 'request' | 'session' | 'path'>

/** The id of the session that the request has begun, or that its cookie is for; undefined without one. */
export const sessionIdIn = ({ request, session, begun }: Visit): string | undefined =>
  begun ?? session.read(request.headers.cookie)?.sessionId

/** True if the sign-in of the session had several factors. */
export const hadSeveralFactors = ({ request, session }: Pick<Visit, 'request' | 'session'>): boolean =>
  session.read(request.headers.cookie)?.isMultiFactor === true

/** The person of the session; undefined if it has ended. */
export async function findHolder({
  issuer,
  request,
  session,
}: Omit<SessionVisit, 'path'>): Promise<Account | undefined> {
  const holder = session.read(request.headers.cookie)
  if (holder === undefined || !(await issuer.sessions.isOpen(holder.sessionId))) return undefined
  const person = await findPerson(issuer, holder.id)
  return person?.generation === holder.generation ? person : undefined
}

/** As {@link findHolder}; undefined also for a session of other pages. */
export async function signedIn(visit: Visit): Promise<Account | undefined> {
  const person = await findHolder(visit)
  return person !== undefined && isAt(person, visit.place) ? person : undefined
}

/** Begins a session. @param methods of the sign-in (RFC 8176) @returns its id, and the value of a Set-Cookie header */
export async function beginSession(
  { issuer, request, session, path }: SessionVisit,
  person: Account,
  methods: readonly string[],
): Promise<{ readonly sessionId: string; readonly cookie: string }> {
  await issuer.signIn.recordSignIn(requesterOf(request), person, path)
  const device = { address: request.ip, agent: request.headers['user-agent'] }
  const sessionId = await issuer.sessions.open(person, device, { page: path, seconds: session.seconds })
  const cookie = session.issue({ ...person, sessionId, isMultiFactor: isMultiFactor(methods) })
  return { sessionId, cookie }
}

/** Ends the session of a cookie. @returns the value of a Set-Cookie header */
export async function endSession({ issuer, request, session }: Omit<SessionVisit, 'path'>): Promise<string> {
  const holder = session.read(request.headers.cookie)
  if (holder !== undefined) await issuer.sessions.end(holder.id, holder.sessionId)
  return session.end()
}

/** The person with the credentials of a form, or why there is none. */
export function authenticate(visit: Visit, form: Form): Promise<Account | Refusal> {
  const { email = '', password } = form
  return check(visit, { ...form, email }, password)
}

/** The person, with the password verified again: the browser may have been left open. */
export async function confirmPassword(
  visit: Visit,
  { email, tenantId }: Account,
  password?: string,
): Promise<Account | Refusal> {
  const confirmed = await check(visit, { email }, password, tenantId ?? undefined)
  return 'text' in confirmed && confirmed.status === 401 ? WRONG_PASSWORD : confirmed
}

const WRONG_PASSWORD: Refusal = { status: 401, text: 'The password is not correct.' }

/** @param tenantId of an account; undefined: the tenant that the form names */
async function check(
  { issuer, workspace, path, request }: Visit,
  form: Form,
  password: string | undefined,
  tenantId?: string,
): Promise<Account | Refusal> {
  const credentials = { ...credentialsIn(form, request, password), network: networkOf(request.ip) }
  const by = requesterOf(request)
  const person = await (workspace === undefined
    ? issuer.signIn.identify(by, credentials, tenantId, path)
    : issuer.signIn.identifyUser(by, credentials, workspace, path))
  return typeof person === 'string' ? LOGIN_ERRORS[person] : person
}

/** The name of the application, as authenticator apps and passkeys show it. */
export const brandNameOf = ({ place, issuer }: Visit): string =>
  place.brand?.name ?? `Tenon at ${new URL(issuer.origin).host}`
