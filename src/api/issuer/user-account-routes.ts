/** Serves the page where a user of a workspace changes password and address, signs out everywhere, or deletes the account. */

import type { FastifyInstance, FastifyReply } from 'fastify'
import { networkOf } from '../../access/rate-limit/memory-buckets.ts'
import { type Page, plainPage } from '../../features/identity/pages/pages.ts'
import { accountSignInPage, type Refusal, userNoticePage } from '../../features/identity/pages/user-pages.ts'
import { isUserEmail } from '../../features/identity/users/user-service.ts'
import type { UserAccount, UserWorkspace } from '../../features/identity/users/users-store.ts'
import { actOnFactors, askCode, checkCode } from './account-factors.ts'
import {
  type Acted,
  authenticate,
  confirmPassword,
  findVisit,
  type Services,
  showAccount,
  signedIn,
  type Visit,
} from './account-visit.ts'
import { type Form, formOf, passwordError, rejectCrossSite, requesterOf, show } from './forms.ts'

const UNKNOWN = plainPage(
  'There is no such application',
  'The address of this page names an application (client_id) whose users can sign in.',
  404,
)

export function mountUserAccount(app: FastifyInstance, path: string, services: Services): void {
  app.get(path, async (request, reply) => {
    const visit = await findVisit(path, request, services)
    if (visit === undefined) return show(reply, UNKNOWN)
    const user = await signedIn(visit, services)
    return show(
      reply,
      user === undefined ? accountSignInPage(visit.workspace) : await showAccount(visit, user),
    )
  })
  app.post(path, async (request, reply) => {
    const visit = await findVisit(path, request, services)
    if (visit === undefined) return show(reply, UNKNOWN)
    rejectCrossSite(request, visit.issuer.origin)
    return show(reply, await submit(visit, reply, services))
  })
}

async function submit(visit: Visit, reply: FastifyReply, services: Services): Promise<Page> {
  const form = formOf(visit.request)
  const { action } = form
  const { userSession } = services
  if (action === 'sign_in') {
    const { email = '', password } = form
    const user = await authenticate(visit, email, password)
    if ('text' in user) return accountSignInPage(visit.workspace, { ...user, email })
    return (await askCode(visit, user)) ?? begin(visit, user, reply, services)
  }
  if (action === 'code') {
    const user = await checkCode(visit, form)
    return 'html' in user ? user : begin(visit, user, reply, services)
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

/** Begins a session. */
async function begin(visit: Visit, user: UserAccount, reply: FastifyReply, { userSession }: Services) {
  visit.issuer.audit.signedIn(requesterOf(visit.request), user, visit.path)
  reply.header('set-cookie', userSession.issue(user))
  return showAccount(visit, user)
}

async function act(visit: Visit, user: UserAccount, form: Form): Promise<Acted> {
  const { issuer, workspace, request } = visit
  const { action } = form
  const by = requesterOf(request)
  const refuse = async (refused: Refusal): Promise<Acted> => ({
    page: await showAccount(visit, user, { refused }),
  })
  if (action === 'sign_out') {
    await issuer.userService.signOut(by, user)
    return ended(workspace, 'You are signed out', 'You are signed out on all devices and in all browsers.')
  }
  const factors = await actOnFactors(visit, user, form)
  if (factors !== undefined) return { page: factors }
  const error = formError(form)
  if (error !== undefined) return refuse({ status: 400, text: error })
  const confirmed = await confirmPassword(visit, user, form['current'])
  if ('text' in confirmed) return refuse(confirmed)
  if (action === 'email') return changeEmail(visit, confirmed, (form['email'] ?? '').trim())
  if (action === 'delete') {
    await issuer.userService.delete(by, confirmed)
    return ended(workspace, 'Your account is deleted', 'You are signed out everywhere.')
  }
  await issuer.userService.changePassword(by, workspace, confirmed, form['password'] ?? '')
  return ended(
    workspace,
    'Your password is changed',
    'All sessions have ended. Sign in again with the new password.',
  )
}

/** Why the form of an action is not accepted. */
function formError(form: Form): string | undefined {
  const { action } = form
  if (action === 'password') return passwordError(form)
  if (action === 'email')
    return isUserEmail((form['email'] ?? '').trim()) ? undefined : 'This e-mail address cannot be used here.'
  return action === 'delete' ? undefined : 'Choose one of the buttons.'
}

const ended = (workspace: UserWorkspace, title: string, text: string): Acted => ({
  page: userNoticePage(workspace, title, text),
  ended: true,
})

async function changeEmail(visit: Visit, user: UserAccount, email: string): Promise<Acted> {
  const { issuer, workspace, request } = visit
  const form = { by: requesterOf(request), network: networkOf(request.ip), returnTo: '', email }
  const outcome = await issuer.userService.changeEmail(workspace, user, form)
  const done = 'We have sent a link to the new address. Your address changes when you open it.'
  if (outcome === 'sent') return { page: await showAccount(visit, user, { done }) }
  const refused = { status: 429, text: 'Too many mails were requested. Try again in an hour.' }
  return { page: await showAccount(visit, user, { refused }) }
}
