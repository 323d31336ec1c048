/** Sends the browser of a user to an identity provider, and takes the answer with which it comes back. */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { networkOf } from '../../access/rate-limit/memory-buckets.ts'
import type { AuthServices } from '../../app/auth-services.ts'
import type { EmbeddedIssuer } from '../../features/identity/issuer/embedded-issuer.ts'
import { confirmByMailPage, connectIdentityPage } from '../../features/identity/pages/identity-pages.ts'
import { formTargetOf, LOGIN_ERRORS, type Page } from '../../features/identity/pages/pages.ts'
import type { Refusal } from '../../features/identity/pages/user-pages.ts'
import type { Identified } from '../../features/identity/users/provider-service.ts'
import { formOf, show } from './forms.ts'
import { EXPIRED, interactionOf, interactionPath, undefinedIfExpired } from './interaction.ts'
import { continueSignIn, isUserPrompt, signInPage, type UserSignIn } from './interaction-sign-in.ts'

const BEGIN = '/auth/interaction/:uid/providers/:provider'

export function mountProviderSignIn(
  app: FastifyInstance,
  { identity }: Pick<AuthServices, 'identity'>,
): void {
  app.get(BEGIN, async (request, reply) => {
    const signIn = await findSignIn(await identity(), request, reply)
    return signIn === undefined ? show(reply, EXPIRED) : begin(signIn, reply)
  })
  // The address that is registered at the provider. The cookie of the sign-in is sent to the address of the sign-in only.
  app.get('/auth/providers/:workspace/:provider/callback', async (request, reply) => {
    const parameters = parametersOf(request)
    const pending = (await identity()).identityProviders.pending(parameters.get('state') ?? '')
    if (pending === undefined || pending.workspaceId !== paramOf(request, 'workspace'))
      return show(reply, EXPIRED)
    const provider = encodeURIComponent(paramOf(request, 'provider'))
    return reply.redirect(`/auth/interaction/${pending.at}/providers/${provider}/callback?${parameters}`, 303)
  })
  app.get(`${BEGIN}/callback`, async (request, reply) => {
    const signIn = await findSignIn(await identity(), request, reply)
    return signIn === undefined ? show(reply, EXPIRED) : end(signIn, reply)
  })
}

async function findSignIn(
  issuer: EmbeddedIssuer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<UserSignIn | undefined> {
  const interaction = interactionOf(request, reply)
  const prompt = await undefinedIfExpired(issuer.signIn.ask(interaction))
  return isUserPrompt(prompt) ? { issuer, interaction, prompt, request } : undefined
}

async function begin(signIn: UserSignIn, reply: FastifyReply): Promise<FastifyReply> {
  const { issuer, prompt, request } = signIn
  const to = await issuer.providerService.begin(visitOf(signIn), paramOf(request, 'provider'))
  if (to instanceof URL) return reply.redirect(to.href, 303)
  return show(reply, signInPage(issuer, prompt, interactionPath(request), to))
}

async function end(signIn: UserSignIn, reply: FastifyReply): Promise<FastifyReply> {
  const { issuer, prompt, request } = signIn
  const answer = { ...visitOf(signIn), parameters: parametersOf(request), clientId: prompt.clientId }
  const result = await issuer.providerService.end(answer, paramOf(request, 'provider'))
  const path = interactionPath(request)
  if ('text' in result) return show(reply, signInPage(issuer, prompt, path, result))
  if (!('ask' in result)) return continueSignIn(signIn, result.user, result.identity, reply)
  if (result.ask === 'mail') return show(reply, confirmByMailPage(prompt.workspace, result.provider, path))
  return show(reply, passwordStepPage(signIn, result.identified, result.ticket))
}

/** Takes the password of the user whose address the identity has. The identity is connected when all steps are passed. */
export async function connectIdentity(signIn: UserSignIn, reply: FastifyReply): Promise<FastifyReply> {
  const { issuer, prompt, request } = signIn
  const { ticket = '', password = '' } = formOf(request)
  const visit = visitOf(signIn)
  const pending = await issuer.providerService.unconfirmed(visit, ticket)
  if (pending === undefined) return show(reply, EXPIRED)
  const credentials = { email: pending.user.email, password, network: visit.network }
  const user = await issuer.signIn.identifyUser(visit.by, credentials, visit.workspace, prompt.clientId)
  if (typeof user === 'string')
    return show(reply, passwordStepPage(signIn, pending, ticket, LOGIN_ERRORS[user]))
  const isSame = user.id === pending.user.id && user.generation === pending.user.generation
  return isSame ? continueSignIn(signIn, user, pending.identity, reply) : show(reply, EXPIRED)
}

function passwordStepPage(
  { prompt, request }: UserSignIn,
  { user, identity }: Identified,
  ticket: string,
  refused?: Refusal,
): Page {
  const action = `${interactionPath(request)}/identity`
  const form = { ticket, action, formTarget: formTargetOf(prompt) }
  return connectIdentityPage(
    prompt.workspace,
    { ...form, email: user.email, provider: identity.provider },
    refused,
  )
}

const visitOf = ({ interaction, prompt, request }: UserSignIn) => ({
  by: interaction.by,
  workspace: prompt.workspace,
  at: interaction.uid,
  network: networkOf(request.ip),
})

const parametersOf = ({ url }: FastifyRequest) => new URLSearchParams(url.split('?')[1] ?? '')

const paramOf = ({ params }: FastifyRequest, name: string) => (params as Record<string, string>)[name] ?? ''
