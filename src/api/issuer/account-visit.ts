/** A visit of the page of a user's own account: its workspace, session and password. */

import type { FastifyRequest } from 'fastify'
import { networkOf } from '../../access/rate-limit/memory-buckets.ts'
import type { AuthServices } from '../../app/auth-services.ts'
import type { EmbeddedIssuer } from '../../features/identity/issuer/embedded-issuer.ts'
import { totpSection } from '../../features/identity/pages/factor-pages.ts'
import { identitySections } from '../../features/identity/pages/identity-pages.ts'
import { LOGIN_ERRORS, type Page } from '../../features/identity/pages/pages.ts'
import { passkeySections } from '../../features/identity/pages/passkey-pages.ts'
import { accountPage, type Message, type Refusal } from '../../features/identity/pages/user-pages.ts'
import type { UserAccount, UserWorkspace } from '../../features/identity/users/users-store.ts'
import { requesterOf } from './forms.ts'

/** A request at the page, for the users of one workspace. */
export interface Visit {
  readonly issuer: EmbeddedIssuer
  readonly workspace: UserWorkspace
  readonly path: string
  readonly request: FastifyRequest
}

export type Services = Pick<AuthServices, 'identity' | 'userSession'>

/** The workspace is that of the client in the query, which must be one for users. */
export async function findVisit(
  path: string,
  request: FastifyRequest,
  { identity }: Services,
): Promise<Visit | undefined> {
  const { client_id: clientId } = request.query as { client_id?: unknown }
  const issuer = await identity()
  const client = typeof clientId === 'string' ? await issuer.oauthClients.find(clientId) : undefined
  if (client?.audience !== 'users') return undefined
  const workspace = await issuer.users.workspace(client.workspaceId)
  return workspace && { issuer, workspace, path, request }
}

/** The user of the session; undefined if it has ended, or is one of another workspace. */
export async function signedIn(
  { issuer, workspace, request }: Visit,
  { userSession }: Services,
): Promise<UserAccount | undefined> {
  const session = userSession.read(request.headers.cookie)
  const user = session && (await issuer.users.find(session.id))
  return user?.generation === session?.generation && user?.workspaceId === workspace.workspaceId
    ? user
    : undefined
}

/** The user with these credentials, or why there is none. */
export async function authenticate(
  { issuer, workspace, path, request }: Visit,
  email: string,
  password = '',
): Promise<UserAccount | Refusal> {
  const credentials = { email: email.trim(), password, network: networkOf(request.ip) }
  const user = await issuer.signIn.identifyUser(requesterOf(request), credentials, workspace, path)
  return typeof user === 'string' ? LOGIN_ERRORS[user] : user
}

/** The user, with the password verified again: the browser may have been left open. */
export async function confirmPassword(
  visit: Visit,
  { email }: UserAccount,
  password?: string,
): Promise<UserAccount | Refusal> {
  const confirmed = await authenticate(visit, email, password)
  return 'text' in confirmed && confirmed.status === 401 ? WRONG_PASSWORD : confirmed
}

const WRONG_PASSWORD: Refusal = { status: 401, text: 'The password is not correct.' }

/** The page with the present state of the account. */
export async function showAccount(
  { issuer, workspace }: Visit,
  user: UserAccount,
  message: Message = {},
): Promise<Page> {
  const { identitiesStore, passkeys, secondFactors } = issuer
  const factors = [
    totpSection(await secondFactors.recoveryCodesLeft(user)),
    ...(passkeys.isAvailable ? passkeySections(await passkeys.list(user)) : []),
    ...identitySections(await identitiesStore.list(user), workspace.providers),
  ]
  return accountPage(workspace, user, factors, message)
}

/** A page, and true if the session has ended. */
export interface Acted {
  readonly page: Page
  readonly ended?: boolean
}
