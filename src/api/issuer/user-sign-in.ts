/** Signs a user of a workspace in: with a password, a code or a passkey, or after another means has identified the user. */

import type { FastifyReply, FastifyRequest } from 'fastify'
import { networkOf } from '../../access/rate-limit/memory-buckets.ts'
import type { Account } from '../../features/identity/accounts/accounts-store.ts'
import type { EmbeddedIssuer } from '../../features/identity/issuer/embedded-issuer.ts'
import type { InteractionRequest } from '../../features/identity/issuer/sign-in.ts'
import { CODE_ERRORS, codePage } from '../../features/identity/pages/factor-pages.ts'
import { formTargetOf, LOGIN_ERRORS, type Page } from '../../features/identity/pages/pages.ts'
import { PASSKEY_ERRORS, PASSKEY_SCRIPT, passkeySignIn } from '../../features/identity/pages/passkey-pages.ts'
import { type Refusal, type UserPrompt, userSignInPage } from '../../features/identity/pages/user-pages.ts'
import type { ProvenIdentity } from '../../features/identity/users/identities-store.ts'
import { isUser, type UserAccount } from '../../features/identity/users/users-store.ts'
import { formOf, show } from './forms.ts'
import { EXPIRED, interactionPath, undefinedIfExpired } from './interaction.ts'

/** A form of the sign-in at a client for users. */
export interface UserSignIn {
  readonly issuer: EmbeddedIssuer
  readonly interaction: InteractionRequest
  readonly prompt: UserPrompt
  readonly request: FastifyRequest
}

export const isUserPrompt = (prompt: { readonly workspace?: object } | undefined): prompt is UserPrompt =>
  prompt?.workspace !== undefined

/** @param path of the interaction @param refused why the last attempt failed */
export function signInPage(
  { passkeys }: EmbeddedIssuer,
  prompt: UserPrompt,
  path: string,
  refused?: Refusal,
): Page {
  if (!passkeys.isAvailable) return userSignInPage(prompt, path, { html: '' }, refused)
  const html = passkeySignIn(passkeys.authenticationOptions(path), path)
  return userSignInPage(prompt, path, { html, script: PASSKEY_SCRIPT }, refused)
}

/** Handles the sign-in form, and its button to cancel. */
export async function signInUser(signIn: UserSignIn, reply: FastifyReply): Promise<FastifyReply> {
  const { issuer, interaction, prompt, request } = signIn
  const { action, email = '', password = '' } = formOf(request)
  if (action === 'deny') return reply.redirect(await issuer.signIn.deny(interaction), 303)
  const credentials = { tenant: '', email: email.trim(), password, network: networkOf(request.ip) }
  const result = await undefinedIfExpired(issuer.signIn.login(interaction, credentials))
  if (result === undefined) return show(reply, EXPIRED)
  if ('redirect' in result) return reply.redirect(result.redirect, 303)
  const path = interactionPath(request)
  if ('ticket' in result) return show(reply, codeStepPage(prompt, path, result.ticket))
  return show(reply, signInPage(issuer, prompt, path, { ...LOGIN_ERRORS[result.refused], email }))
}

const codeStepPage = (prompt: UserPrompt, path: string, ticket: string, refused?: Refusal): Page =>
  codePage(prompt.workspace, { ticket, action: `${path}/code`, formTarget: formTargetOf(prompt) }, refused)

/** Ends a sign-in with a second factor. */
export async function enterCode(signIn: UserSignIn, reply: FastifyReply): Promise<FastifyReply> {
  const { issuer, interaction, prompt, request } = signIn
  const { ticket = '', code = '' } = formOf(request)
  const form = { ticket, code, at: interaction.uid, clientId: prompt.clientId }
  const checked = await issuer.factorService.checkCode(interaction.by, prompt.workspace, form)
  if (typeof checked !== 'string') return complete(signIn, checked.person, checked.identity, reply)
  const path = interactionPath(request)
  if (checked === 'expired' || checked === 'changed')
    return show(reply, signInPage(issuer, prompt, path, CODE_ERRORS[checked]))
  return show(reply, codeStepPage(prompt, path, ticket, CODE_ERRORS[checked]))
}

/** Signs in with a passkey, which needs neither password nor code. */
export async function usePasskey(signIn: UserSignIn, reply: FastifyReply): Promise<FastifyReply> {
  const { issuer, interaction, prompt, request } = signIn
  const { credential = '' } = formOf(request)
  const path = interactionPath(request)
  const form = { credential, at: path, clientId: prompt.clientId, network: networkOf(request.ip) }
  const user = await issuer.factorService.checkPasskey(interaction.by, prompt.workspace, form)
  if (typeof user !== 'string') return loginAs(signIn, user, reply)
  return show(reply, signInPage(issuer, prompt, path, PASSKEY_ERRORS[user]))
}

/** Ends the sign-in of a user whom a provider has identified, or asks for the code of a second factor. */
export async function continueSignIn(
  signIn: UserSignIn,
  user: UserAccount,
  identity: ProvenIdentity,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { issuer, interaction, prompt, request } = signIn
  const ticket = await issuer.secondFactors.challenge(user, interaction.uid, identity)
  if (ticket === undefined) return complete(signIn, user, identity, reply)
  return show(reply, codeStepPage(prompt, interactionPath(request), ticket))
}

/** Ends a sign-in all steps of which are passed. @param identity by which the user has signed in; undefined after a password */
async function complete(
  signIn: UserSignIn,
  person: Account,
  identity: ProvenIdentity | undefined,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { issuer, interaction, prompt, request } = signIn
  const isComplete =
    identity === undefined ||
    (isUser(person) &&
      (await issuer.providerService.complete(interaction.by, prompt.workspace, person, identity)))
  if (isComplete) return loginAs(signIn, person, reply)
  return show(reply, signInPage(issuer, prompt, interactionPath(request), CODE_ERRORS.changed))
}

async function loginAs({ issuer, interaction }: UserSignIn, person: Account, reply: FastifyReply) {
  const next = await undefinedIfExpired(issuer.signIn.loginAs(interaction, person))
  return next === undefined ? show(reply, EXPIRED) : reply.redirect(next, 303)
}
