/** Serves the page where account holders review the clients that act for them, and take access back. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { AGENTS_PAGE, type HolderSession } from '../../access/authentication/holder-session.ts'
import type { AuthServices } from '../../app/auth-services.ts'
import type { Account } from '../../features/identity/accounts/accounts-store.ts'
import type { EmbeddedIssuer } from '../../features/identity/issuer/embedded-issuer.ts'
import { agentsPage, agentsSignInPage } from '../../features/identity/pages/agent-pages.ts'
import type { Page } from '../../features/identity/pages/pages.ts'
import type { Message } from '../../features/identity/pages/user-pages.ts'
import { credentialsIn, formOf, rejectCrossSite, requesterOf, show } from './forms.ts'

interface Visit {
  readonly issuer: EmbeddedIssuer
  readonly session: HolderSession
  readonly request: FastifyRequest
}

/** @param app reads forms (forms.ts) */
export function mountAgentsPage(app: FastifyInstance, { identity, agentsSession }: AuthServices): void {
  const createVisit = async (request: FastifyRequest): Promise<Visit> => {
    const issuer = await identity()
    return { issuer, session: agentsSession, request }
  }
  app.get(AGENTS_PAGE, async (request, reply) => {
    const visit = await createVisit(request)
    const account = await signedIn(visit)
    return show(reply, account === undefined ? agentsSignInPage() : await showAgents(visit, account))
  })
  app.post(AGENTS_PAGE, async (request, reply) => {
    const visit = await createVisit(request)
    rejectCrossSite(request, visit.issuer.origin)
    return show(reply, await submit(visit, reply))
  })
}

/** The account of the session; undefined if it has ended. */
async function signedIn({ issuer, session, request }: Visit): Promise<Account | undefined> {
  const holder = session.read(request.headers.cookie)
  const account = holder && (await issuer.accounts.find(holder.id))
  return account?.generation === holder?.generation ? account : undefined
}

async function showAgents({ issuer }: Visit, account: Account, message?: Message): Promise<Page> {
  return agentsPage(account.email, await issuer.grants.list(account), message)
}

async function submit(visit: Visit, reply: FastifyReply): Promise<Page> {
  const { action } = formOf(visit.request)
  if (action === 'sign_in') return signIn(visit, reply)
  const account = await signedIn(visit)
  if (action === 'leave' || account === undefined) {
    reply.header('set-cookie', visit.session.end())
    return agentsSignInPage()
  }
  return showAgents(visit, account, await act(visit, account))
}

async function signIn(visit: Visit, reply: FastifyReply): Promise<Page> {
  const { issuer, session, request } = visit
  const form = formOf(request)
  const credentials = credentialsIn(form, request, form['password'])
  const account = await issuer.signIn.identify(requesterOf(request), credentials, undefined, AGENTS_PAGE)
  if (typeof account === 'string') return agentsSignInPage(account, form)
  reply.header('set-cookie', session.issue(account))
  return showAgents(visit, account)
}

/** Removes access. @returns the message to show */
async function act({ issuer, request }: Visit, account: Account): Promise<Message> {
  const { action, grant = '' } = formOf(request)
  const by = requesterOf(request)
  if (action === 'remove_all') {
    await issuer.grants.endAll(by, account)
    return { done: 'All access is removed.' }
  }
  if (action !== 'remove') return { refused: { status: 400, text: 'Choose one of the buttons.' } }
  return (await issuer.grants.end(by, account, grant))
    ? { done: 'The access is removed.' }
    : { refused: { status: 404, text: 'This access does not exist, or has ended.' } }
}
