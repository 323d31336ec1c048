/**
 * Receives webhook deliveries: verifies the signature, then starts the target. The sender needs no other credential, and no
 * scope is opened before the signature of the whole body is verified. An unknown address and a bad signature get the same
 * answer. A delivery that arrives again starts nothing: `claimDelivery` in `features/runs/triggers/webhook-deliveries.ts`.
 */

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import { privilege } from '../access/privileges.ts'
import type { Platform } from '../app/platform.ts'
import { readChainDepth } from '../core/execution.ts'
import { Problem } from '../core/problem.ts'
import { TRIGGER_LIMITS } from '../features/runs/triggers/limits.ts'
import type { WebhookSpec } from '../features/runs/triggers/trigger.ts'
import { triggerActor } from '../features/runs/triggers/trigger-starter.ts'
import { webhookPath } from '../features/runs/triggers/webhooks.ts'
import { publicUrl } from '../infra/config.ts'
import { whenGone } from './body-streams.ts'
import { isServedFor } from './host-names.ts'
import { API_LIMITS } from './limits.ts'

const openForDelivery = privilege('flows.webhooks')

const PATH = webhookPath(':ws', ':id')

type WebhookRequest = FastifyRequest<{ Params: { readonly ws: string; readonly id: string } }>

export async function mountWebhooks(
  app: FastifyInstance,
  { access, config, limiter, triggers, webhooks }: Platform,
): Promise<void> {
  /** Senders with a valid signature: failures of other clients at the same address do not block them. */
  const knownSenders = new LRUCache<string, true>({ max: API_LIMITS.webhookSendersKnownMax })
  const limitRequest = async (request: WebhookRequest, reply: FastifyReply) => {
    const { ws, id } = request.params
    const { headers, refused } = await limiter.limitWebhook(`${ws}/${id}`, request.ip)
    reply.headers(headers)
    if (refused !== undefined) throw refused
    if (!knownSenders.has(senderOf(request))) limiter.authFailures(request.ip).check()
  }
  const refuse = async () => {
    throw new Problem('method_not_allowed', {
      headers: { allow: 'POST' },
      detail: 'Webhooks are sent by POST.',
    })
  }
  await app.register(async (part) => {
    part.removeAllContentTypeParsers()
    part.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
    part.route({
      method: 'POST',
      url: PATH,
      config: { operation: { name: 'webhook.receive', reads: false }, isServedForHosts: true },
      bodyLimit: TRIGGER_LIMITS.webhookBodyBytesMax,
      // Before the body is read.
      onRequest: limitRequest,
      handler: async (request: WebhookRequest, reply) => {
        const { ws, id } = request.params
        const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
        const delivery = { headers: request.headers, body, url: `${publicUrl(config)}${request.url}` }
        const received = await webhooks.receive(ws, id, delivery)
        if (received === undefined || !isServedFor(request, received.ref)) {
          limiter.authFailures(request.ip).record()
          throw new Problem('signature_invalid')
        }
        const { ref, triggerId, spec } = received
        const actor = { subject: triggerId, role: null, kind: 'webhook' } as const
        request.workspace = ref
        request.auditContext = { owner: ref, isVerified: true, actor, before: null, after: null }
        knownSenders.set(senderOf(request), true)
        const challenge = slackChallenge(spec, body)
        if (challenge !== undefined) return reply.headers(PLAIN).send(challenge)
        const chainDepth = readChainDepth(request.headers)
        const depth = chainDepth === undefined ? {} : { chainDepth }
        const scope = await openForDelivery(access, ref, { ...triggerActor(triggerId), ...depth })
        const started = await triggers.startByDelivery(scope, {
          received,
          delivery,
          disconnected: whenGone(reply),
        })
        reply.headers({ 'cache-control': 'private, no-store', 'x-stability': 'preview' })
        const { response, runId: execution_id, deduplicated } = started
        if (response === undefined) return reply.code(202).send({ execution_id, deduplicated })
        reply.headers({ ...response.headers, ...UNTRUSTED, 'x-execution-id': execution_id })
        return reply.code(response.status).send(response.body)
      },
    })
  })
  app.route({
    method: 'GET',
    url: PATH,
    config: { operation: { name: 'webhook.challenge', reads: true }, isServedForHosts: true },
    onRequest: limitRequest,
    handler: async (request: WebhookRequest, reply) => {
      const { ws, id } = request.params
      const parameter = isServedFor(request, { workspaceId: ws })
        ? await webhooks.findChallenge(ws, id)
        : undefined
      // An unknown webhook gets the answer of one without a challenge.
      const text =
        parameter === undefined ? null : new URLSearchParams(request.url.split('?')[1]).get(parameter)
      if (text === null || text.length > CHALLENGE_CHARS_MAX) {
        limiter.authFailures(request.ip).record()
        return refuse()
      }
      return reply.headers(PLAIN).send(text)
    },
  })
  const method = ['PUT', 'PATCH', 'DELETE', 'OPTIONS']
  app.route({ method, url: PATH, onRequest: refuse, handler: refuse })
}

const senderOf = ({ params: { ws, id }, ip }: WebhookRequest): string => `${ws}/${id} ${ip}`

/** Content of a tenant or of a request: browsers must neither run it nor guess its type. */
const UNTRUSTED = {
  'content-security-policy': "default-src 'none'; sandbox",
  'x-content-type-options': 'nosniff',
} as const
const PLAIN = {
  'content-type': 'text/plain; charset=utf-8',
  'cache-control': 'no-store',
  ...UNTRUSTED,
} as const
const CHALLENGE_CHARS_MAX = 1_000

/** The challenge of Slack's Events API, by which a new URL proves that it verifies signatures. */
function slackChallenge({ verify }: WebhookSpec, body: Buffer): string | undefined {
  if (verify?.scheme !== 'slack' || !body.includes('url_verification')) return undefined
  try {
    const { type, challenge } = JSON.parse(body.toString()) as Record<string, unknown>
    return type === 'url_verification' && typeof challenge === 'string' ? challenge : undefined
  } catch {
    return undefined
  }
}
