/** Serves the pages for users of workspaces: sign-in, sign-up, links of mails, and the user's own account. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { networkOf } from '../../access/rate-limit/memory-buckets.ts'
import type { AuthServices } from '../../app/auth-services.ts'
import { webOriginOf } from '../../features/identity/clients/redirect-uris.ts'
import type { EmbeddedIssuer } from '../../features/identity/issuer/embedded-issuer.ts'
import { LOGIN_ERRORS, type Page, plainPage } from '../../features/identity/pages/pages.ts'
import { USER_LINK_PAGE } from '../../features/identity/pages/user-mails.ts'
import {
  checkMailPage,
  continuePage,
  forgotPage,
  linkPage,
  type Refusal,
  signUpPage,
  USER_LIMIT,
  type UserPrompt,
  userNoticePage,
} from '../../features/identity/pages/user-pages.ts'
import { isUserEmail, isUserName, type MailOutcome } from '../../features/identity/users/user-service.ts'
import { formOf, passwordError, rejectCrossSite, requesterOf, show, tokenOf } from './forms.ts'
import { EXPIRED, interactionOf, interactionPath, undefinedIfExpired } from './interaction.ts'
import { enterCode, enterPassword, isUserPrompt, signInPage, usePasskey } from './interaction-sign-in.ts'
import { connectIdentity, mountProviderSignIn } from './provider-sign-in.ts'

const INVALID_LINK = plainPage(
  'This link is not valid',
  'The link was already used, has expired, or was replaced by a newer one. Request a new link in the application.',
  404,
)

/** Why a mail is not sent; each is the same for every address. */
const MAIL_REFUSALS: Readonly<Record<Exclude<MailOutcome, 'sent'>, Refusal>> = {
  rate_limited: { status: 429, text: 'Too many mails were requested. Try again in an hour.' },
  user_limit: USER_LIMIT,
  sign_up_disabled: { status: 403, text: 'Sign-up is disabled.' },
}

const BAD_EMAIL: Refusal = { status: 400, text: 'This e-mail address cannot be used here.' }
const BAD_NAME: Refusal = { status: 400, text: 'This name cannot be used: it has an invisible character.' }

/** @param app reads forms (forms.ts) */
export function mountUserPages(app: FastifyInstance, { identity }: AuthServices): void {
  app.get('/auth/interaction/:uid/:step', async (request, reply) => {
    const issuer = await identity()
    const prompt = await undefinedIfExpired(issuer.signIn.ask(interactionOf(request, reply)))
    return show(reply, (isUserPrompt(prompt) && stepPage(issuer, prompt, request)) || EXPIRED)
  })
  app.post('/auth/interaction/:uid/:step', async (request, reply) => {
    const issuer = await identity()
    rejectCrossSite(request, issuer.origin)
    return submitStep(issuer, request, reply)
  })
  app.get(USER_LINK_PAGE, async (request, reply) => {
    const opened = await (await identity()).userService.open(tokenOf(request))
    return show(reply, opened === undefined ? INVALID_LINK : linkPage(opened.link, opened.workspace))
  })
  app.post(USER_LINK_PAGE, async (request, reply) => {
    const issuer = await identity()
    rejectCrossSite(request, issuer.origin)
    return show(reply, await submitLink(issuer, request))
  })
  mountProviderSignIn(app, { identity })
}

/** Shows the first page of an interaction at a client for users. */
export function openUserPrompt(
  issuer: EmbeddedIssuer,
  prompt: UserPrompt,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const path = interactionPath(request)
  if (prompt.startsWithSignUp) return reply.redirect(`${path}/sign-up`, 303)
  return show(reply, prompt.kind === 'consent' ? continuePage(prompt) : signInPage(issuer, prompt, path))
}

const stepOf = ({ params }: FastifyRequest) => (params as { step: string }).step

/** @returns undefined for an unknown step, and for the sign-up step if the workspace has not opened sign-ups */
function stepPage(issuer: EmbeddedIssuer, prompt: UserPrompt, request: FastifyRequest): Page | undefined {
  const path = interactionPath(request)
  const step = stepOf(request)
  if (step === 'sign-in') return signInPage(issuer, prompt, path)
  if (step === 'forgot') return forgotPage(prompt, path)
  return step === 'sign-up' && prompt.workspace.signUp === 'open' ? signUpPage(prompt, path) : undefined
}

async function submitStep(
  issuer: EmbeddedIssuer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const interaction = interactionOf(request, reply)
  const prompt = await undefinedIfExpired(issuer.signIn.ask(interaction))
  if (prompt === undefined) return show(reply, EXPIRED)
  const step = stepOf(request)
  const { action } = formOf(request)
  // The answer to any step may be the sign-in page, at the address of that step.
  if (step === 'sign-in' || action === 'login' || action === 'deny')
    return enterPassword({ issuer, interaction, prompt, request }, reply)
  if (step === 'code') return enterCode({ issuer, interaction, prompt, request }, reply)
  if (step === 'passkey') return usePasskey({ issuer, interaction, prompt, request }, reply)
  if (!isUserPrompt(prompt)) return show(reply, EXPIRED)
  const signIn = { issuer, interaction, prompt, request }
  if (step === 'identity') return connectIdentity(signIn, reply)
  if (step === 'sign-up') return show(reply, await signUp(issuer, prompt, request))
  return show(reply, step === 'forgot' ? await forgot(issuer, prompt, request) : EXPIRED)
}

async function signUp(
  { userService }: EmbeddedIssuer,
  prompt: UserPrompt,
  request: FastifyRequest,
): Promise<Page> {
  const form = formOf(request)
  const { password = '' } = form
  const [email, name] = [(form['email'] ?? '').trim(), (form['name'] ?? '').trim()]
  const path = interactionPath(request)
  const refuse = (refused: Refusal) => signUpPage(prompt, path, { ...refused, email, name })
  if (!isUserEmail(email)) return refuse(BAD_EMAIL)
  if (!isUserName(name)) return refuse(BAD_NAME)
  const error = passwordError(form)
  if (error !== undefined) return refuse({ status: 400, text: error })
  const visitor = {
    by: requesterOf(request),
    network: networkOf(request.ip),
    returnTo: webOriginOf(prompt.redirectUri) ?? '',
  }
  const outcome = await userService.signUp(prompt.workspace, { ...visitor, email, name, password })
  return outcome === 'sent'
    ? checkMailPage(prompt.workspace, path, 'sign-up')
    : refuse(MAIL_REFUSALS[outcome])
}

async function forgot(
  { userService }: EmbeddedIssuer,
  prompt: UserPrompt,
  request: FastifyRequest,
): Promise<Page> {
  const email = (formOf(request)['email'] ?? '').trim()
  const path = interactionPath(request)
  if (!isUserEmail(email)) return forgotPage(prompt, path, { ...BAD_EMAIL, email })
  const visitor = {
    by: requesterOf(request),
    network: networkOf(request.ip),
    returnTo: webOriginOf(prompt.redirectUri) ?? '',
  }
  const outcome = await userService.forgot(prompt.workspace, { ...visitor, email })
  return outcome === 'sent'
    ? checkMailPage(prompt.workspace, path, 'forgot')
    : forgotPage(prompt, path, { ...MAIL_REFUSALS[outcome], email })
}

const DONE = {
  sign_up: ['Your e-mail address is confirmed', 'Your account is ready. You can sign in now.'],
  email: ['Your e-mail address has changed', 'All devices are signed out. Sign in with the new address.'],
  invitation: ['Your password is set', 'Your account is ready. You can sign in now.'],
  identity: ['Your sign-in is confirmed', 'You can sign in this way from now on.'],
  reset: ['Your password is set', 'All devices are signed out. Sign in with the new password.'],
} as const

async function submitLink({ userService }: EmbeddedIssuer, request: FastifyRequest): Promise<Page> {
  const token = tokenOf(request)
  const opened = await userService.open(token)
  if (opened === undefined) return INVALID_LINK
  const { link, workspace } = opened
  const form = formOf(request)
  const { password = '' } = form
  const sets = link.purpose === 'invitation' || link.purpose === 'reset'
  const error = sets ? passwordError(form) : undefined
  if (error !== undefined) return linkPage(link, workspace, { status: 400, text: error })
  const by = requesterOf(request)
  const outcome = sets
    ? await userService.setPassword(by, token, password)
    : link.purpose === 'identity'
      ? await userService.connectIdentity(by, token)
      : await userService.confirm(by, token, password)
  if ('done' in outcome) {
    const [title, text] = DONE[link.purpose]
    return userNoticePage(workspace, title, text, { returnTo: link.returnTo })
  }
  if (outcome.failed === 'invalid') return INVALID_LINK
  const refused =
    outcome.failed === 'user_limit'
      ? USER_LIMIT
      : outcome.failed === 'wrong'
        ? { status: 401, text: 'The password is not correct.' }
        : LOGIN_ERRORS.too_many
  return linkPage(link, workspace, refused)
}
