/** Serves the page of an approval: a signed link opens it, and the person that the link names decides. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { METHODS } from '../access/authentication/claims.ts'
import { privilege } from '../access/privileges.ts'
import { networkOf } from '../access/rate-limit/memory-buckets.ts'
import type { WorkspaceScope } from '../access/scope.ts'
import type { AuthServices } from '../app/auth-services.ts'
import type { Platform } from '../app/platform.ts'
import { Problem } from '../core/problem.ts'
import { APPROVAL_PAGE, readLink } from '../features/flows/approvals/approval-links.ts'
import { decideByLink, type OpenedLink, openLink } from '../features/flows/approvals/open-link.ts'
import type { Account } from '../features/identity/accounts/accounts-store.ts'
import type { EmbeddedIssuer } from '../features/identity/issuer/embedded-issuer.ts'
import { CODE_ERRORS, FACTOR_NEEDED } from '../features/identity/pages/factor-pages.ts'
import { LOGIN_ERRORS, type Page, plainPage } from '../features/identity/pages/pages.ts'
import { PASSKEY_ERRORS } from '../features/identity/pages/passkey-pages.ts'
import type { Brand } from '../features/identity/users/users-store.ts'
import { publicUrl } from '../infra/config.ts'
import { formValue } from './approval-form.ts'
import { approverSignInPage, decisionPage, otherPersonPage, outcomePage } from './approval-pages.ts'
import { beginSession, endSession, findHolder } from './issuer/account-visit.ts'
import { formOf, readForms, rejectCrossSite, requesterOf, show, tokenOf } from './issuer/forms.ts'
import { beginsAgain, codeStepPage, type SecondStep } from './issuer/second-step.ts'

const UNKNOWN = plainPage('There is no such approval', 'The link is not complete, or it was changed.', 404)
const EXPIRED = plainPage('This link has expired', 'The deadline of this decision has passed.', 410)
const CHANGED = plainPage(
  'This link is out of date',
  'The request has changed since this link was sent. A newer mail has the current link.',
  410,
)
const DISABLED = plainPage('Not for this account', 'The account that this link names cannot sign in.', 403)

const openForLink = privilege('approvals.links')

interface Visit extends OpenedLink {
  readonly scope: WorkspaceScope
  /** The account that has signed in. */
  readonly viewer: Account | undefined
  readonly brand: Brand
}

export async function mountApprovalPages(
  app: FastifyInstance,
  platform: Platform,
  services: AuthServices,
): Promise<void> {
  const { origin } = new URL(publicUrl(platform.config))
  await app.register(async (pages) => {
    readForms(pages)
    const looked = { config: { operation: { name: 'approval.read_by_link', reads: true } } }
    pages.get(APPROVAL_PAGE, looked, async (request, reply) => {
      const visit = await findVisit(request, platform, services)
      if (visit !== undefined) recordVisit(visit, request, platform)
      return show(reply, visit === undefined ? UNKNOWN : pageOf(visit))
    })
    const audited = { config: { operation: { name: 'approval.decide_by_link', reads: false } } }
    pages.post(APPROVAL_PAGE, audited, async (request, reply) => {
      rejectCrossSite(request, origin)
      const visit = await findVisit(request, platform, services)
      return show(reply, visit === undefined ? UNKNOWN : await submit(visit, request, reply, services))
    })
  })
}

/** Notes for the audit log who is shown the data of an approval. @throws Problem if the log cannot take it */
function recordVisit(visit: Visit, request: FastifyRequest, { audit }: Platform): void {
  if (refusalOf(visit) !== undefined) return
  audit.refuseUnlessReady()
  request.auditContext = auditContextOf(visit)
  request.look = 'asked'
}

/** The person of the link is the actor. */
const auditContextOf = ({ scope, account, person }: Visit): FastifyRequest['auditContext'] => ({
  owner: scope.ref,
  isVerified: true,
  actor: { subject: account?.id ?? person, role: null, kind: 'token' },
  before: null,
  after: null,
})

/** @returns undefined if there is no such approval */
async function findVisit(
  request: FastifyRequest,
  { access }: Platform,
  { identity, approvalSession }: AuthServices,
): Promise<Visit | undefined> {
  const link = readLink(tokenOf(request))
  if (link === undefined) return undefined
  try {
    const actor = { subject: link.person, role: 'workspace_admin' } as const
    const scope = await openForLink(access, link.ref, actor)
    const opened = await openLink(scope, link)
    const issuer = await identity()
    const workspace = await issuer.users.workspace(link.ref.workspaceId)
    if (workspace === undefined) return undefined
    const viewer = await findHolder({ issuer, request, session: approvalSession })
    return { ...opened, scope, viewer, brand: workspace.brand }
  } catch (error) {
    if (error instanceof Problem && error.code === 'not_found') return undefined
    throw error
  }
}

/** The page that asks for a decision, or says why there is none to make. */
function pageOf(visit: Visit): Page {
  const refused = refusalOf(visit)
  if (refused !== undefined) return refused
  const viewer = viewerOf(visit)
  return hasDecided(visit) ? outcomePage(viewer, 200) : decisionPage(viewer)
}

/** Content is shown to the person of the link only. */
function refusalOf({ account, viewer, over, approval, brand }: Visit): Page | undefined {
  if (account?.active === false) return DISABLED
  if (account !== undefined && viewer === undefined) return approverSignInPage(brand, account.email)
  if (account !== undefined && viewer?.id !== account.id) return otherPersonPage(brand, account.email)
  if (over === 'changed') return CHANGED
  return over === 'expired' && approval.status === 'open' ? EXPIRED : undefined
}

const viewerOf = ({ approval, account, brand, person }: Visit) => ({
  approval,
  brand,
  person: account?.email ?? person,
  isAccount: account !== undefined,
})

const hasDecided = (visit: Visit): boolean =>
  visit.approval.status !== 'open' || ownDecision(visit) !== undefined

/** The decision that the person of the link has taken. */
function ownDecision({ approval, account, person }: Visit): { readonly approved?: boolean } | undefined {
  const by = account?.id ?? person
  return (approval.decisions as readonly { by?: string; approved?: boolean }[]).find((one) => one.by === by)
}

/** A decision that was sent again after an answer that did not say whether it was taken: it is taken once, and no conflict. */
const statusOfRepetition = (visit: Visit, approved: boolean): 200 | 409 =>
  ownDecision(visit)?.approved === approved ? 200 : 409

async function submit(
  visit: Visit,
  request: FastifyRequest,
  reply: FastifyReply,
  services: AuthServices,
): Promise<Page> {
  const fields = formOf(request)
  const { action } = fields
  if (action === 'sign_in') return enterPassword(visit, request, reply, services)
  if (action === 'code' || action === 'passkey') return proveFurther(visit, request, reply, services)
  if (action === 'leave') {
    const session = { issuer: await services.identity(), request, session: services.approvalSession }
    reply.header('set-cookie', await endSession(session))
    return pageOf({ ...visit, viewer: undefined })
  }
  const refused = refusalOf(visit)
  if (refused !== undefined) return refused
  if (action !== 'approve' && action !== 'reject') throw new Problem('request_malformed')
  const approved = action === 'approve'
  if (hasDecided(visit)) return outcomePage(viewerOf(visit), statusOfRepetition(visit, approved))
  return decideAs(visit, request, approved)
}

async function decideAs(visit: Visit, request: FastifyRequest, approved: boolean): Promise<Page> {
  const { scope, approval } = visit
  request.auditContext = auditContextOf(visit)
  const fields = formOf(request)
  const comment = (fields['comment'] ?? '').trim()
  const form = approved ? formValue(approval.form, fields) : undefined
  try {
    const decided = await decideByLink(scope, visit, {
      approved,
      ...(form !== undefined && { form }),
      ...(comment !== '' && { comment }),
    })
    return outcomePage(viewerOf({ ...visit, approval: decided }), 200)
  } catch (error) {
    if (!(error instanceof Problem) || error.code !== 'state_conflict') throw error
    const { approval: now } = await openAgain(visit)
    const after = { ...visit, approval: now }
    if (hasDecided(after)) return outcomePage(viewerOf(after), statusOfRepetition(after, approved))
    return decisionPage(viewerOf(visit), { status: 409, text: error.detail ?? '', fields })
  }
}

/** The approval after a decision was refused: another person may have decided meanwhile. */
const openAgain = ({ scope, link }: Visit) => openLink(scope, link)

async function enterPassword(
  visit: Visit,
  request: FastifyRequest,
  reply: FastifyReply,
  services: AuthServices,
): Promise<Page> {
  const { account: named, brand, scope } = visit
  if (named === undefined) return pageOf(visit)
  const credentials = {
    tenant: '',
    // The link names the person; the address in the form is for password managers.
    email: named.email,
    password: formOf(request)['password'] ?? '',
    network: networkOf(request.ip),
  }
  const issuer = await services.identity()
  const { tenantId } = scope.ref
  const account = await issuer.signIn.identify(requesterOf(request), credentials, tenantId, APPROVAL_PAGE)
  if (typeof account === 'string') return approverSignInPage(brand, named.email, LOGIN_ERRORS[account])
  const ticket = await issuer.secondFactors.challenge(account, atOf(visit))
  if (ticket !== undefined) return codeStepPage(secondStepOf(issuer, visit, request), ticket)
  if (await issuer.signIn.needsFactor(account)) return FACTOR_NEEDED
  return begin({ ...visit, methods: METHODS.password }, account, request, reply, services)
}

/** Identifies the sign-in to this approval. */
const atOf = ({ approval, person }: Visit) => `${APPROVAL_PAGE} ${approval.id} ${person}`

function secondStepOf(issuer: EmbeddedIssuer, visit: Visit, { url }: FastifyRequest): SecondStep {
  const at = atOf(visit)
  return { issuer, place: { brand: visit.brand }, at, action: url, passkey: { at, action: url } }
}

/** The code or passkey after the password. */
async function proveFurther(
  visit: Visit,
  request: FastifyRequest,
  reply: FastifyReply,
  services: AuthServices,
): Promise<Page> {
  const { account: named, brand } = visit
  if (named === undefined) return pageOf(visit)
  const issuer = await services.identity()
  const { factorService } = issuer
  const { action, ticket = '', code = '', credential = '' } = formOf(request)
  const { place, ...step } = secondStepOf(issuer, visit, request)
  const by = requesterOf(request)
  const sent = { at: step.at, clientId: APPROVAL_PAGE }
  if (action === 'passkey') {
    const used = { ...sent, credential, network: networkOf(request.ip) }
    const account = await factorService.checkPasskey(by, place, used)
    if (typeof account !== 'string')
      return begin({ ...visit, methods: METHODS.passkey }, account, request, reply, services)
    return approverSignInPage(brand, named.email, PASSKEY_ERRORS[account])
  }
  const checked = await factorService.checkCode(by, place, { ...sent, ticket, code })
  if (typeof checked !== 'string')
    return begin({ ...visit, methods: METHODS.code }, checked.person, request, reply, services)
  if (beginsAgain(checked)) return approverSignInPage(brand, named.email, CODE_ERRORS[checked])
  return codeStepPage({ place, ...step }, ticket, CODE_ERRORS[checked])
}

async function begin(
  { methods, ...visit }: Visit & { readonly methods: readonly string[] },
  account: Account,
  request: FastifyRequest,
  reply: FastifyReply,
  { identity, approvalSession }: AuthServices,
): Promise<Page> {
  const session = { issuer: await identity(), request, session: approvalSession, path: APPROVAL_PAGE }
  reply.header('set-cookie', (await beginSession(session, account, methods)).cookie)
  return pageOf({ ...visit, viewer: account })
}
