/** Serves the page where a user of a workspace changes password and address, signs out everywhere, or deletes the account. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { AuthServices } from '../../access/authentication/auth-services.ts'
import type { EmbeddedIssuer } from '../../access/issuer/embedded-issuer.ts'
import { LOGIN_ERRORS, type Page, plainPage } from '../../access/issuer/pages.ts'
import {
  accountPage,
  accountSignInPage,
  type Refusal,
  userNoticePage,
} from '../../access/issuer/users/user-pages.ts'
import { isUserEmail } from '../../access/issuer/users/user-service.ts'
import type { UserAccount, UserWorkspace } from '../../access/issuer/users/users-store.ts'
import { networkOf } from '../../access/rate-limit/memory-buckets.ts'
import { type Form, formOf, passwordError, rejectCrossSite, requesterOf, show } from './forms.ts'

const UNKNOWN = plainPage(
  'There is no such application',
  'The address of this page names an application (client_id) whose users can sign in.',
  404,
)

/** A request at the page, for the users of one workspace. */
interface Visit {
  readonly issuer: EmbeddedIssuer
  readonly workspace: UserWorkspace
  readonly path: string
  readonly request: FastifyRequest
}

type Services = Pick<AuthServices, 'identity' | 'userSession'>

export function mountUserAccount(app: FastifyInstance, path: string, services: Services): void {
  app.get(path, async (request, reply) => {
    const visit = await visitOf(path, request, services)
    if (visit === undefined) return show(reply, UNKNOWN)
    const user = await signedIn(visit, services)
    return show(
      reply,
      user === undefined ? accountSignInPage(visit.workspace) : accountPage(visit.workspace, user),
    )
  })
  app.post(path, async (request, reply) => {
    const visit = await visitOf(path, request, services)
    if (visit === undefined) return show(reply, UNKNOWN)
    rejectCrossSite(request, visit.issuer.origin)
    return show(reply, await submit(visit, reply, services))
  })
}

/** The workspace is that of the client in the query, which must be one for users. */
async function visitOf(
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
async function signedIn(
  { issuer, workspace, request }: Visit,
  { userSession }: Services,
): Promise<UserAccount | undefined> {
  const session = userSession.read(request.headers.cookie)
  const user = session && (await issuer.users.find(session.id))
  return user?.generation === session?.generation && user?.workspaceId === workspace.workspaceId
    ? user
    : undefined
}

async function submit(visit: Visit, reply: FastifyReply, services: Services): Promise<Page> {
  const form = formOf(visit.request)
  const { action } = form
  const { userSession } = services
  if (action === 'sign_in') {
    const user = await authenticate(visit, form['email'] ?? '', form['password'])
    if ('text' in user) return accountSignInPage(visit.workspace, user)
    reply.header('set-cookie', userSession.issue(user))
    return accountPage(visit.workspace, user)
  }
  const user = await signedIn(visit, services)
  if (action === 'leave' || user === undefined) {
    reply.header('set-cookie', userSession.end())
    return accountSignInPage(visit.workspace)
  }
  const { page, ended } = await act(visit, user, form)
  if (ended) reply.header('set-cookie', userSession.end())
  return page
}

/** The user with these credentials, or why there is none. */
async function authenticate(
  { issuer, workspace, path, request }: Visit,
  email: string,
  password = '',
): Promise<UserAccount | Refusal> {
  const credentials = { email: email.trim(), password, network: networkOf(request.ip) }
  const user = await issuer.signIn.identifyUser(requesterOf(request), credentials, workspace, path)
  return typeof user === 'string' ? LOGIN_ERRORS[user] : user
}

/** A page, and true if the session has ended. */
interface Acted {
  readonly page: Page
  readonly ended?: boolean
}

async function act(visit: Visit, user: UserAccount, form: Form): Promise<Acted> {
  const { issuer, workspace, request } = visit
  const { action } = form
  const by = requesterOf(request)
  const refuse = (refused: Refusal): Acted => ({ page: accountPage(workspace, user, { refused }) })
  if (action === 'sign_out') {
    await issuer.userService.signOut(by, user)
    return ended(workspace, 'You are signed out', 'On all devices and in all browsers.')
  }
  const error = formError(form)
  if (error !== undefined) return refuse({ status: 400, text: error })
  // The rest needs the password again: the browser may have been left open.
  const confirmed = await authenticate(visit, user.email, form['current'])
  if ('text' in confirmed)
    return refuse({ ...confirmed, text: WRONG_PASSWORD[confirmed.status] ?? confirmed.text })
  if (action === 'email') return changeEmail(visit, confirmed, (form['email'] ?? '').trim())
  if (action === 'delete') {
    await issuer.userService.delete(by, confirmed)
    return ended(workspace, 'Your account is deleted', 'You are signed out everywhere.')
  }
  await issuer.userService.changePassword(by, workspace, confirmed, form['password'] ?? '')
  return ended(
    workspace,
    'Your password is changed',
    'All sessions have ended: sign in again with the new one.',
  )
}

const WRONG_PASSWORD: Readonly<Record<number, string>> = { 401: 'This is not your password.' }

/** Why the form of an action is not accepted. */
function formError(form: Form): string | undefined {
  const { action } = form
  if (action === 'password') return passwordError(form)
  if (action === 'email')
    return isUserEmail((form['email'] ?? '').trim())
      ? undefined
      : 'This is no e-mail address that can be used here.'
  return action === 'delete' ? undefined : 'Choose one of the buttons.'
}

const ended = (workspace: UserWorkspace, title: string, text: string): Acted => ({
  page: userNoticePage(workspace, title, text),
  ended: true,
})

async function changeEmail(
  { issuer, workspace, request }: Visit,
  user: UserAccount,
  email: string,
): Promise<Acted> {
  const form = { by: requesterOf(request), network: networkOf(request.ip), returnTo: '', email }
  const outcome = await issuer.userService.changeEmail(workspace, user, form)
  const done = 'We have sent a link to the new address. Your address changes when you open it.'
  if (outcome === 'sent') return { page: accountPage(workspace, user, { done }) }
  const refused = { status: 429, text: 'Too many mails were asked for. Try again in an hour.' }
  return { page: accountPage(workspace, user, { refused }) }
}
