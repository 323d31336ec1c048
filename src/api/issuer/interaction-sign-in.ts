/** Signs a person in during an authorization: with a password, a code or a passkey, or after another means has identified the user. */

import type { FastifyReply, FastifyRequest } from 'fastify'
import { METHODS } from '../../access/authentication/claims.ts'
import { networkOf } from '../../access/rate-limit/memory-buckets.ts'
import type { Account } from '../../features/identity/accounts/accounts-store.ts'
import { ACCOUNT_PAGES, type SignInPlace } from '../../features/identity/factors/factor-owner.ts'
import type { EmbeddedIssuer } from '../../features/identity/issuer/embedded-issuer.ts'
import type { InteractionRequest, Prompt } from '../../features/identity/issuer/sign-in.ts'
import { CODE_ERRORS, FACTOR_NEEDED } from '../../features/identity/pages/factor-pages.ts'
import { formTargetOf, LOGIN_ERRORS, loginPage, type Page } from '../../features/identity/pages/pages.ts'
import { PASSKEY_ERRORS, passkeySignIn } from '../../features/identity/pages/passkey-pages.ts'
import { type Refusal, type UserPrompt, userSignInPage } from '../../features/identity/pages/user-pages.ts'
import type { ProvenIdentity } from '../../features/identity/users/identities-store.ts'
import { isUser, type UserAccount } from '../../features/identity/users/users-store.ts'
import { credentialsIn, formOf, show } from './forms.ts'
import { EXPIRED, interactionPath, undefinedIfExpired } from './interaction.ts'
import { beginsAgain, codeStepPage, type SecondStep } from './second-step.ts'

/** A form of the sign-in at a client. */
export interface SignInForm<P extends Prompt = Prompt> {
  readonly issuer: EmbeddedIssuer
  readonly interaction: InteractionRequest
  readonly prompt: P
  readonly request: FastifyRequest
}

export type UserSignIn = SignInForm<UserPrompt>

export const isUserPrompt = (prompt: { readonly workspace?: object } | undefined): prompt is UserPrompt =>
  prompt?.workspace !== undefined

const placeOf = (prompt: Prompt): SignInPlace => prompt.workspace ?? ACCOUNT_PAGES

/** @param path of the interaction @param refused why the last attempt failed */
export function signInPage(
  { passkeys }: EmbeddedIssuer,
  prompt: Prompt,
  path: string,
  refused?: Refusal,
): Page {
  const ways = passkeys.isAvailable
    ? passkeySignIn(passkeys.authenticationOptions(path), `${path}/passkey`)
    : { html: '' }
  return isUserPrompt(prompt) ? userSignInPage(prompt, path, ways, refused) : loginPage(prompt, ways, refused)
}

/** Handles the sign-in form, and its button to cancel. */
export async function enterPassword(signIn: SignInForm, reply: FastifyReply): Promise<FastifyReply> {
  const { issuer, interaction, prompt, request } = signIn
  const form = formOf(request)
  if (form['action'] === 'deny') return reply.redirect(await issuer.signIn.deny(interaction), 303)
  const { tenant, email } = form
  const named = isUserPrompt(prompt) ? { ...form, tenant: '' } : form
  const credentials = credentialsIn(named, request, form['password'])
  const result = await undefinedIfExpired(issuer.signIn.login(interaction, credentials))
  if (result === undefined) return show(reply, EXPIRED)
  if ('redirect' in result) return reply.redirect(result.redirect, 303)
  if ('ticket' in result) return show(reply, await codeStepPage(secondStepOf(signIn), result.ticket))
  if ('needsFactor' in result) return show(reply, FACTOR_NEEDED)
  const refused = { ...LOGIN_ERRORS[result.refused], ...(tenant && { tenant }), ...(email && { email }) }
  return show(reply, signInPage(issuer, prompt, interactionPath(request), refused))
}

function secondStepOf({ issuer, interaction, prompt, request }: SignInForm): SecondStep {
  const path = interactionPath(request)
  return {
    ...{ issuer, place: placeOf(prompt), at: interaction.uid, action: `${path}/code` },
    passkey: { at: path, action: `${path}/passkey` },
    formTarget: formTargetOf(prompt),
  }
}

/** Ends a sign-in with a second factor. */
export async function enterCode(signIn: SignInForm, reply: FastifyReply): Promise<FastifyReply> {
  const { issuer, interaction, prompt, request } = signIn
  const { ticket = '', code = '' } = formOf(request)
  const form = { ticket, code, at: interaction.uid, clientId: prompt.clientId }
  const checked = await issuer.factorService.checkCode(interaction.by, placeOf(prompt), form)
  if (typeof checked !== 'string') return complete(signIn, checked, true, reply)
  if (beginsAgain(checked))
    return show(reply, signInPage(issuer, prompt, interactionPath(request), CODE_ERRORS[checked]))
  return show(reply, await codeStepPage(secondStepOf(signIn), ticket, CODE_ERRORS[checked]))
}

/** Signs in with a passkey, which needs neither password nor code. */
export async function usePasskey(signIn: SignInForm, reply: FastifyReply): Promise<FastifyReply> {
  const { issuer, interaction, prompt, request } = signIn
  const { credential = '' } = formOf(request)
  const path = interactionPath(request)
  const form = { credential, at: path, clientId: prompt.clientId, network: networkOf(request.ip) }
  const person = await issuer.factorService.checkPasskey(interaction.by, placeOf(prompt), form)
  if (typeof person !== 'string') return loginAs(signIn, person, METHODS.passkey, reply)
  return show(reply, signInPage(issuer, prompt, path, PASSKEY_ERRORS[person]))
}

/** Ends the sign-in of a user whom a provider has identified, or asks for the code of a second factor. */
export async function continueSignIn(
  signIn: UserSignIn,
  user: UserAccount,
  identity: ProvenIdentity,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { issuer, interaction } = signIn
  const ticket = await issuer.secondFactors.challenge(user, interaction.uid, identity)
  if (ticket === undefined) return complete(signIn, { person: user, identity }, false, reply)
  return show(reply, await codeStepPage(secondStepOf(signIn), ticket))
}

/**
 * Ends a sign-in all steps of which are passed.
 * @param proven the person, and the identity by which a user has signed in; none after a password
 * @param withCode a code of a second factor was right
 */
async function complete(
  signIn: SignInForm,
  { person, identity }: { readonly person: Account; readonly identity: ProvenIdentity | undefined },
  withCode: boolean,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { issuer, interaction, prompt, request } = signIn
  const isComplete =
    identity === undefined ||
    (isUser(person) &&
      isUserPrompt(prompt) &&
      (await issuer.providerService.complete(interaction.by, prompt.workspace, person, identity)))
  const [plain, coded] =
    identity === undefined ? [METHODS.password, METHODS.code] : [METHODS.provider, METHODS.providerAndCode]
  if (isComplete) return loginAs(signIn, person, withCode ? coded : plain, reply)
  return show(reply, signInPage(issuer, prompt, interactionPath(request), CODE_ERRORS.changed))
}

async function loginAs(
  { issuer, interaction }: SignInForm,
  person: Account,
  methods: readonly string[],
  reply: FastifyReply,
) {
  const next = await undefinedIfExpired(issuer.signIn.loginAs(interaction, person, methods))
  return next === undefined ? show(reply, EXPIRED) : reply.redirect(next, 303)
}
