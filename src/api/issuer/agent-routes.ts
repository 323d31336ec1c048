/** Serves the page where account holders review the clients that act for them, and take access back. */

import type { FastifyInstance } from 'fastify'
import { AGENTS_PAGE } from '../../access/authentication/holder-session.ts'
import type { AuthServices } from '../../app/auth-services.ts'
import type { Account } from '../../features/identity/accounts/accounts-store.ts'
import { ACCOUNT_PAGES } from '../../features/identity/factors/factor-owner.ts'
import { agentsPage, agentsSignInPage } from '../../features/identity/pages/agent-pages.ts'
import { type Page, plainPage } from '../../features/identity/pages/pages.ts'
import type { Message } from '../../features/identity/pages/user-pages.ts'
import type { Visit } from './account-visit.ts'
import { type Form, requesterOf } from './forms.ts'
import { mountSignedInPage } from './signed-in-page.ts'

/** @param app reads forms (forms.ts) */
export function mountAgentsPage(app: FastifyInstance, { identity, agentsSession }: AuthServices): void {
  mountSignedInPage(app, {
    path: AGENTS_PAGE,
    visit: async (request) => ({
      ...{ issuer: await identity(), place: ACCOUNT_PAGES, path: AGENTS_PAGE },
      ...{ request, session: agentsSession },
    }),
    unknown: plainPage('There is no such page', 'Check the address.', 404),
    signInPage: (_visit, ...more) => agentsSignInPage(...more),
    show: showAgents,
    act: async (visit, account, form) => ({
      page: await showAgents(visit, account, await act(visit, account, form)),
    }),
  })
}

async function showAgents({ issuer }: Visit, account: Account, message?: Message): Promise<Page> {
  return agentsPage(account.email, await issuer.grants.list(account), message)
}

async function act(visit: Visit, account: Account, form: Form): Promise<Message> {
  const removed = await removeAccess(visit, account, form)
  return removed ?? { refused: { status: 400, text: 'Choose one of the buttons.' } }
}

/** Takes access back. @returns the message to show; undefined for an action that is about something else */
export async function removeAccess(
  { issuer, request, path }: Visit,
  account: Account,
  { action, grant = '' }: Form,
): Promise<Message | undefined> {
  if (action !== 'remove' && action !== 'remove_all') return undefined
  const isAll = action === 'remove_all'
  const ended = await (isAll ? issuer.grants.endAll(account) : issuer.grants.end(account, grant))
  for (const one of ended) issuer.audit.grantRevoked(requesterOf(request), account, one, path)
  if (isAll) return { done: 'All access is removed.' }
  return ended.length > 0
    ? { done: 'The access is removed.' }
    : { refused: { status: 404, text: 'This access does not exist, or has ended.' } }
}
