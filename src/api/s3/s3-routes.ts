/** The routes of the S3 API: each action is a route of its own, which the router finds by method, query and headers. */

import type { FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from 'fastify'
import type { Authenticator } from '../../access/authentication/authenticator.ts'
import type { Platform } from '../../app/platform.ts'
import { Problem } from '../../core/problem.ts'
import { refuseUnknown } from '../../features/objects/s3-buckets.ts'
import { isWithin, nameOfHost } from '../../infra/host-name.ts'
import { acceptStreams } from '../body-streams.ts'
import { createHandler, type Protocol } from '../request-pipeline.ts'
import { ACTIONS, actionOf } from './actions.ts'
import type { S3Action } from './s3-action.ts'
import { refuseUnknownHeaders, S3_PATH, S3_URLS, s3Request, signatureOf, targetOf } from './s3-request.ts'

/** The name of the constraint that tells actions apart. */
const CONSTRAINT = 's3'
const UNKNOWN = 'none'
const METHODS: HTTPMethods[] = ['GET', 'HEAD', 'PUT', 'POST', 'DELETE', 'PATCH']

/** True for a URL of the S3 API. */
export const isS3 = (url: string): boolean =>
  url.startsWith(S3_PATH) && /^(?:[/?]|$)/.test(url.slice(S3_PATH.length))

/**
 * Rewrites the URL of a bucket's host to the path that names the bucket.
 * @param suffix the host that buckets are below; undefined: none is
 */
export function bucketHosts(suffix: string | undefined): ((request: RawTarget) => string) | undefined {
  if (suffix === undefined) return undefined
  const parent = nameOfHost(suffix)
  return ({ url = '', headers: { host = '' } }) => {
    const name = nameOfHost(host)
    if (name === parent) return `${S3_PATH}${url}`
    return isWithin(name, parent) ? `${S3_PATH}/${name.slice(0, -parent.length - 1)}${url}` : url
  }
}

interface RawTarget {
  readonly url?: string | undefined
  readonly headers: { readonly host?: string | undefined }
}

/** Before any route is declared. */
export function distinguishActions(app: FastifyInstance): void {
  app.addConstraintStrategy({
    name: CONSTRAINT,
    storage: () => {
      const handlers = new Map<unknown, never>()
      return {
        get: (name) => handlers.get(name) ?? null,
        set: (name, handler) => void handlers.set(name, handler as never),
      }
    },
    validate: () => {},
    deriveConstraint: ({ url = '', method = '', headers }) =>
      isS3(url) ? nameOf(url, method, headers) : undefined,
  })
}

function nameOf(url: string, method: string, headers: Readonly<Record<string, unknown>>): string {
  try {
    return actionOf(method, targetOf(url), headers)?.name ?? UNKNOWN
  } catch {
    // A malformed URL, which the handler reports.
    return UNKNOWN
  }
}

export async function mountS3(app: FastifyInstance, platform: Platform, auth: Authenticator): Promise<void> {
  await app.register(async (part) => {
    acceptStreams(part)
    for (const action of ACTIONS) mountAction(part, action, { platform, auth })
    // Preflight requests of pages are answered before.
    for (const url of S3_URLS) part.route({ method: 'OPTIONS', url, handler: refuseMethod })
    for (const method of METHODS)
      mountAction(part, { ...unknownAction, method } as S3Action, { platform, auth })
  })
}

function mountAction(
  app: FastifyInstance,
  action: S3Action,
  { platform, auth }: { platform: Platform; auth: Authenticator },
): void {
  const { operation, name, method } = action
  const { authorize, execute } = createHandler(operation, platform, auth, protocolOf(action))
  for (const url of S3_URLS)
    app.route({
      ...{ method, url, constraints: { [CONSTRAINT]: name }, config: { operation }, exposeHeadRoute: false },
      onRequest: async (request: FastifyRequest, reply: FastifyReply) => {
        reply.header('x-amz-request-id', request.id)
        await authorize(request, reply)
      },
      handler: execute,
    })
}

async function refuseMethod(): Promise<never> {
  throw new Problem('method_not_allowed', { detail: `This route answers ${METHODS.join(', ')}.` })
}

const unknownAction = {
  name: UNKNOWN,
  on: 'service',
  operation: refuseUnknown,
  bind: () => ({}),
  send: (_output: never, { reply }: { reply: FastifyReply }) => reply,
}

const protocolOf = (action: S3Action): Protocol => ({
  credentials: (_operation, request) => [signatureOf(request)],
  takesKeys: false,
  bind: ({ request, recheck }) => {
    const parsed = s3Request(request)
    refuseUnknownHeaders(parsed)
    return action.bind(parsed, recheck)
  },
  send: (output, { request, ...exchange }) =>
    action.send(output as never, { ...exchange, request: s3Request(request) }),
})
