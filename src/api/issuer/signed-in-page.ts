/** Serves a page that a person opens by signing in: with the password, and then a code or a passkey; a cookie keeps it open. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { METHODS } from '../../access/authentication/claims.ts'
import { ACCOUNT_PAGE } from '../../access/authentication/holder-session.ts'
import { networkOf } from '../../access/rate-limit/memory-buckets.ts'
import type { ByteReply } from '../../core/bytes.ts'
import { Problem } from '../../core/problem.ts'
import type { Account } from '../../features/identity/accounts/accounts-store.ts'
import { CODE_ERRORS, FACTOR_NEEDED } from '../../features/identity/pages/factor-pages.ts'
import type { Page, SignInWays } from '../../features/identity/pages/pages.ts'
import { PASSKEY_ERRORS, passkeySignIn } from '../../features/identity/pages/passkey-pages.ts'
import type { Refusal } from '../../features/identity/pages/user-pages.ts'
import { sendBytes } from '../body-streams.ts'
import { authenticate, beginSession, endSession, signedIn, type Visit } from './account-visit.ts'
import { type Form, formOf, rejectCrossSite, requesterOf, show } from './forms.ts'
import { beginsAgain, codeStepPage, type SecondStep } from './second-step.ts'

/** A person whose earlier sessions have ended, and what this browser has proved. */
export interface SignedInAgain {
  readonly person: Account
  /** Of RFC 8176. */
  readonly methods: readonly string[]
}

/** The outcome of an action: a page, or a file. `ended`: the session is over; `again`: another one begins. */
export type Acted =
  | { readonly page: Page; readonly ended?: boolean; readonly again?: SignedInAgain }
  | { readonly file: ByteReply }

export interface SignedInPage {
  readonly path: string
  /** @returns undefined if there is no such page */
  readonly visit: (request: FastifyRequest) => Promise<Visit | undefined>
  /** What a request gets that is for no page. */
  readonly unknown: Page
  /** Asks for the password. */
  readonly signInPage: (visit: Visit, ways: SignInWays, refused?: Refusal) => Page
  readonly show: (visit: Visit, person: Account) => Promise<Page>
  readonly act: (visit: Visit, person: Account, form: Form) => Promise<Acted>
}

/** @param app reads forms (forms.ts) */
export function mountSignedInPage(app: FastifyInstance, page: SignedInPage): void {
  app.get(page.path, async (request, reply) => {
    const visit = await page.visit(request)
    if (visit === undefined) return show(reply, page.unknown)
    const person = await signedIn(visit)
    return show(reply, person === undefined ? askPassword(page, visit) : await page.show(visit, person))
  })
  app.post(page.path, async (request, reply) => {
    const visit = await page.visit(request)
    if (visit === undefined) return show(reply, page.unknown)
    rejectCrossSite(request, visit.issuer.origin)
    const answer = await submit(page, visit, reply)
    return 'file' in answer
      ? sendBytes(answer.file, request, reply, () => requireSession(visit))
      : show(reply, answer)
  })
}

/** Identifies sign-ins at the page. */
const atOf = ({ path, place }: Visit) => `${path} ${place.workspaceId ?? ''}`

function askPassword(page: SignedInPage, visit: Visit, refused?: Refusal): Page {
  const { issuer, request } = visit
  const ways = issuer.passkeys.isAvailable
    ? passkeySignIn(issuer.passkeys.authenticationOptions(atOf(visit)), request.url)
    : { html: '' }
  return page.signInPage(visit, ways, refused)
}

const secondStepOf = (visit: Visit): SecondStep => {
  const { issuer, place, request } = visit
  const passkey = { at: atOf(visit), action: request.url }
  return { issuer, place, at: atOf(visit), action: request.url, passkey }
}

/** @throws Problem if the session has ended while a file is sent */
async function requireSession(visit: Visit): Promise<void> {
  if ((await signedIn(visit)) === undefined) throw new Problem('token_invalid')
}

async function submit(
  page: SignedInPage,
  visit: Visit,
  reply: FastifyReply,
): Promise<Page | { readonly file: ByteReply }> {
  const form = formOf(visit.request)
  const { action } = form
  if (action === 'sign_in') return enterPassword(page, visit, form, reply)
  if (action === 'code') return enterCode(page, visit, form, reply)
  if (action === 'passkey') return usePasskey(page, visit, form, reply)
  const person = await signedIn(visit)
  if (action === 'leave' || person === undefined) {
    reply.header('set-cookie', await endSession(visit))
    return askPassword(page, visit)
  }
  const acted = await page.act(visit, person, form)
  if ('file' in acted) return acted
  const { page: next, ended, again } = acted
  if (again) reply.header('set-cookie', (await beginSession(visit, again.person, again.methods)).cookie)
  if (ended) reply.header('set-cookie', await endSession(visit))
  return next
}

async function enterPassword(page: SignedInPage, visit: Visit, form: Form, reply: FastifyReply) {
  const person = await authenticate(visit, form)
  const { email, tenant } = form
  if ('text' in person)
    return askPassword(page, visit, { ...person, ...(email && { email }), ...(tenant && { tenant }) })
  const ticket = await visit.issuer.secondFactors.challenge(person, atOf(visit))
  if (ticket !== undefined) return codeStepPage(secondStepOf(visit), ticket)
  const isRefused = visit.path !== ACCOUNT_PAGE && (await visit.issuer.signIn.needsFactor(person))
  return isRefused ? FACTOR_NEEDED : begin(page, visit, person, METHODS.password, reply)
}

async function enterCode(page: SignedInPage, visit: Visit, form: Form, reply: FastifyReply) {
  const { issuer, place, request, path: clientId } = visit
  const { ticket = '', code = '' } = form
  const entered = { ticket, code, at: atOf(visit), clientId }
  const checked = await issuer.factorService.checkCode(requesterOf(request), place, entered)
  if (typeof checked !== 'string') return begin(page, visit, checked.person, METHODS.code, reply)
  if (beginsAgain(checked)) return askPassword(page, visit, CODE_ERRORS[checked])
  return codeStepPage(secondStepOf(visit), ticket, CODE_ERRORS[checked])
}

async function usePasskey(page: SignedInPage, visit: Visit, form: Form, reply: FastifyReply) {
  const { issuer, place, request, path: clientId } = visit
  const { credential = '' } = form
  const used = { credential, at: atOf(visit), clientId, network: networkOf(request.ip) }
  const person = await issuer.factorService.checkPasskey(requesterOf(request), place, used)
  return typeof person === 'string'
    ? askPassword(page, visit, PASSKEY_ERRORS[person])
    : begin(page, visit, person, METHODS.passkey, reply)
}

/** Begins a session. */
async function begin(
  page: SignedInPage,
  visit: Visit,
  person: Account,
  methods: readonly string[],
  reply: FastifyReply,
): Promise<Page> {
  const { sessionId: begun, cookie } = await beginSession(visit, person, methods)
  reply.header('set-cookie', cookie)
  return page.show({ ...visit, begun }, person)
}
