/** Serves the pages of the own account: one for users of workspaces, and one for accounts of the platform. */

import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Access } from '../../access/access.ts'
import { ACCOUNT_PAGE, USER_ACCOUNT_PAGE } from '../../access/authentication/holder-session.ts'
import { networkOf } from '../../access/rate-limit/memory-buckets.ts'
import type { AuthServices } from '../../app/auth-services.ts'
import type { Account } from '../../features/identity/accounts/accounts-store.ts'
import { ACCOUNT_PAGES } from '../../features/identity/factors/factor-owner.ts'
import { type Page, plainPage, type SignInWays } from '../../features/identity/pages/pages.ts'
import { consentSection, sessionSection } from '../../features/identity/pages/session-pages.ts'
import {
  accountPage,
  accountSignInPage,
  deletionSection,
  emailSection,
  exportSection,
  type Message,
  passwordSection,
  type Refusal,
  userNoticePage,
} from '../../features/identity/pages/user-pages.ts'
import { isUserEmail } from '../../features/identity/users/user-service.ts'
import { isUser, type UserAccount } from '../../features/identity/users/users-store.ts'
import { actOnFactors, factorSections } from './account-factors.ts'
import { confirmPassword, sessionIdIn, type Visit } from './account-visit.ts'
import { removeAccess } from './agent-routes.ts'
import { type Form, passwordError, requesterOf } from './forms.ts'
import { deleteOwnData, exportOwnData } from './own-data.ts'
import { type Acted, mountSignedInPage } from './signed-in-page.ts'

const UNKNOWN = plainPage(
  'There is no such application',
  'The address of this page names an application (client_id) whose users can sign in.',
  404,
)

/** @param app reads forms (forms.ts) @param access opens the scope in which users export and delete their data */
export function mountAccountPages(app: FastifyInstance, services: AuthServices, access: Access): void {
  const own = {
    unknown: UNKNOWN,
    signInPage: ({ place }: Visit, ways: SignInWays, refused?: Refusal) =>
      accountSignInPage(place, ways, refused),
    show: (visit: Visit, person: Account) => showAccount(visit, person),
    act: (visit: Visit, person: Account, form: Form) => act({ ...visit, access }, person, form),
  }
  mountSignedInPage(app, {
    ...own,
    path: USER_ACCOUNT_PAGE,
    visit: (request) => findUserVisit(request, services),
  })
  mountSignedInPage(app, {
    ...own,
    path: ACCOUNT_PAGE,
    visit: async (request) => {
      const { identity, accountSession: session } = services
      return { issuer: await identity(), place: ACCOUNT_PAGES, path: ACCOUNT_PAGE, request, session }
    },
  })
}

/** The workspace is that of the client in the query, which must be one for users. */
async function findUserVisit(
  request: FastifyRequest,
  { identity, userSession: session }: AuthServices,
): Promise<Visit | undefined> {
  const { client_id: clientId } = request.query as { client_id?: unknown }
  const issuer = await identity()
  const client = typeof clientId === 'string' ? await issuer.oauthClients.find(clientId) : undefined
  if (client?.audience !== 'users') return undefined
  const workspace = await issuer.users.workspace(client.workspaceId)
  return workspace && { issuer, place: workspace, workspace, path: USER_ACCOUNT_PAGE, request, session }
}

/** The page with the present state of the account. */
async function showAccount(visit: Visit, person: Account, message: Message = {}): Promise<Page> {
  const own = isUser(person) ? [emailSection] : []
  const last = isUser(person) ? [exportSection, deletionSection] : []
  const { issuer } = visit
  const sections = [
    ...[passwordSection, ...own, ...(await factorSections(visit, person))],
    ...sessionSection(await issuer.sessions.list(person.id), sessionIdIn(visit)),
    ...consentSection(await issuer.grants.list(person)),
    ...last,
  ]
  const { email, name = '' } = isUser(person) ? person : { email: person.email }
  return accountPage(visit.place, { email, name }, sections, message)
}

async function act(visit: Visit & { readonly access: Access }, person: Account, form: Form): Promise<Acted> {
  const { issuer, request } = visit
  const by = requesterOf(request)
  const answer = async (message: Message): Promise<Acted> => ({
    page: await showAccount(visit, person, message),
  })
  if (form['action'] === 'sign_out') {
    await signOut(visit, person)
    return ended(visit, 'You are signed out', 'You are signed out on all devices and in all browsers.')
  }
  const removed = await endAccess(visit, person, form)
  if (removed !== undefined) return answer(removed)
  const outcome = await actOnFactors(visit, person, form)
  if (outcome !== undefined) return 'page' in outcome ? outcome : answer(outcome)
  const error = formError(form, person)
  if (error !== undefined) return answer({ refused: { status: 400, text: error } })
  const confirmed = await confirmPassword(visit, person, form['current'])
  if ('text' in confirmed) return answer({ refused: confirmed })
  if (form['action'] === 'password') {
    await changePassword(visit, confirmed, form['password'] ?? '')
    return ended(
      visit,
      'Your password is changed',
      'All sessions have ended. Sign in again with the new password.',
    )
  }
  if (!isUser(confirmed)) throw new TypeError('only users have further actions')
  if (form['action'] === 'email')
    return answer(await changeEmail(visit, confirmed, (form['email'] ?? '').trim()))
  if (form['action'] === 'export') {
    issuer.audit.personChanged(by, confirmed, 'export_data')
    return { file: await exportOwnData(visit.access, confirmed) }
  }
  return deleteAccount(visit, confirmed, form['data'])
}

/** Ends a session, or takes access back from a client. @returns undefined for an action that is about something else */
async function endAccess(visit: Visit, person: Account, form: Form): Promise<Message | undefined> {
  if (form['action'] !== 'session_end') return removeAccess(visit, person, form)
  const { issuer, request } = visit
  if (!(await issuer.sessions.end(person.id, form['session'] ?? '')))
    return { refused: { status: 404, text: 'This session does not exist, or has ended.' } }
  issuer.audit.personChanged(requesterOf(request), person, 'end_session')
  return { done: 'The session has ended.' }
}

/** Why the form of an action is not accepted. */
function formError(form: Form, person: Account): string | undefined {
  const { action } = form
  if (action === 'password') return passwordError(form)
  if (action === 'email' && isUser(person))
    return isUserEmail((form['email'] ?? '').trim()) ? undefined : 'This e-mail address cannot be used here.'
  return (action === 'delete' || action === 'export') && isUser(person)
    ? undefined
    : 'Choose one of the buttons.'
}

const ended = ({ place }: Visit, title: string, text: string): Acted => ({
  page: userNoticePage(place, title, text),
  ended: true,
})

const WHAT_HAPPENS = {
  delete: ' Your data is being deleted.',
  anonymize: ' Your name is being removed from your data.',
} as const

async function deleteAccount(
  visit: Visit & { readonly access: Access },
  user: UserAccount,
  data: string | undefined,
): Promise<Acted> {
  const { issuer, request, access } = visit
  const by = requesterOf(request)
  const job = data === 'delete' || data === 'anonymize' ? data : undefined
  if (job === undefined) await issuer.userService.delete(by, user)
  else {
    await deleteOwnData(access, user, job)
    issuer.audit.personChanged(by, user, 'delete')
  }
  const text = `You are signed out everywhere.${job === undefined ? '' : WHAT_HAPPENS[job]}`
  return ended(visit, 'Your account is deleted', text)
}

const signOut = ({ issuer, request }: Visit, person: Account): Promise<void> =>
  isUser(person)
    ? issuer.userService.signOut(requesterOf(request), person)
    : issuer.signIn.signOut(requesterOf(request), person)

async function changePassword({ issuer, request, workspace }: Visit, person: Account, password: string) {
  const by = requesterOf(request)
  if (workspace !== undefined && isUser(person))
    await issuer.userService.changePassword(by, workspace, person, password)
  else await issuer.signIn.changePassword(by, person, password)
}

async function changeEmail(
  { issuer, workspace, request }: Visit,
  user: UserAccount,
  email: string,
): Promise<Message> {
  if (workspace === undefined) throw new TypeError('a user has a workspace')
  const form = { by: requesterOf(request), network: networkOf(request.ip), returnTo: '', email }
  const outcome = await issuer.userService.changeEmail(workspace, user, form)
  return outcome === 'sent'
    ? { done: 'We have sent a link to the new address. Your address changes when you open it.' }
    : { refused: { status: 429, text: 'Too many mails were requested. Try again in an hour.' } }
}
