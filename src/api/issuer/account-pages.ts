/** Serves the pages of the own account: one for users of workspaces, and one for accounts of the platform. */

import type { FastifyInstance, FastifyRequest } from 'fastify'
import { ACCOUNT_PAGE, USER_ACCOUNT_PAGE } from '../../access/authentication/holder-session.ts'
import { networkOf } from '../../access/rate-limit/memory-buckets.ts'
import type { AuthServices } from '../../app/auth-services.ts'
import type { Account } from '../../features/identity/accounts/accounts-store.ts'
import { ACCOUNT_PAGES } from '../../features/identity/factors/factor-owner.ts'
import { type Page, plainPage } from '../../features/identity/pages/pages.ts'
import {
  accountPage,
  accountSignInPage,
  deletionSection,
  emailSection,
  type Message,
  passwordSection,
  userNoticePage,
} from '../../features/identity/pages/user-pages.ts'
import { isUserEmail } from '../../features/identity/users/user-service.ts'
import { isUser, type UserAccount } from '../../features/identity/users/users-store.ts'
import { actOnFactors, factorSections } from './account-factors.ts'
import { confirmPassword, type Visit } from './account-visit.ts'
import { type Form, passwordError, requesterOf } from './forms.ts'
import { type Acted, mountSignedInPage } from './signed-in-page.ts'

const UNKNOWN = plainPage(
  'There is no such application',
  'The address of this page names an application (client_id) whose users can sign in.',
  404,
)

const OWN = {
  unknown: UNKNOWN,
  signInPage: ({ place }: Visit, ...more: Rest<typeof accountSignInPage>) =>
    accountSignInPage(place, ...more),
  show: (visit: Visit, person: Account) => showAccount(visit, person),
  act,
}
type Rest<F> = F extends (first: never, ...rest: infer R) => unknown ? R : never

/** @param app reads forms (forms.ts) */
export function mountAccountPages(app: FastifyInstance, services: AuthServices): void {
  mountSignedInPage(app, {
    ...OWN,
    path: USER_ACCOUNT_PAGE,
    visit: (request) => findUserVisit(request, services),
  })
  mountSignedInPage(app, {
    ...OWN,
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
  const last = isUser(person) ? [deletionSection] : []
  const sections = [passwordSection, ...own, ...(await factorSections(visit, person)), ...last]
  const { email, name = '' } = isUser(person) ? person : { email: person.email }
  return accountPage(visit.place, { email, name }, sections, message)
}

async function act(visit: Visit, person: Account, form: Form): Promise<Acted> {
  const { issuer, request } = visit
  const by = requesterOf(request)
  const answer = async (message: Message): Promise<Acted> => ({
    page: await showAccount(visit, person, message),
  })
  if (form['action'] === 'sign_out') {
    await signOut(visit, person)
    return ended(visit, 'You are signed out', 'You are signed out on all devices and in all browsers.')
  }
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
  await issuer.userService.delete(by, confirmed)
  return ended(visit, 'Your account is deleted', 'You are signed out everywhere.')
}

/** Why the form of an action is not accepted. */
function formError(form: Form, person: Account): string | undefined {
  const { action } = form
  if (action === 'password') return passwordError(form)
  if (action === 'email' && isUser(person))
    return isUserEmail((form['email'] ?? '').trim()) ? undefined : 'This e-mail address cannot be used here.'
  return action === 'delete' && isUser(person) ? undefined : 'Choose one of the buttons.'
}

const ended = ({ place }: Visit, title: string, text: string): Acted => ({
  page: userNoticePage(place, title, text),
  ended: true,
})

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
