/** The HTTP application: every operation as a route, plus health, documentation and the issuer. */

import Fastify, {
  errorCodes,
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type HTTPMethods,
  LogController,
} from 'fastify'
import { RejectedCaller } from '../access/authentication/authenticator.ts'
import { countHeader, gatewayReader } from '../access/authentication/credentials.ts'
import type { AuthServices } from '../app/auth-services.ts'
import type { Platform } from '../app/platform.ts'
import { isProbe, probesOf } from '../app/probes.ts'
import { parseJson } from '../core/json.ts'
import { CORE_LIMITS } from '../core/limits.ts'
import type { AnyOperation } from '../core/operation.ts'
import { isPublicRole } from '../core/policy.ts'
import { Problem } from '../core/problem.ts'
import { holdsSecret, redactText } from '../core/redact.ts'
import { escapesUtf8 } from '../core/text/utf8.ts'
import { readTraceparent, TRACEPARENT } from '../core/trace.ts'
import { OPERATIONS } from '../features/index.ts'
import { type Config, publicUrl } from '../infra/config.ts'
import { type Log, plainLines } from '../infra/log.ts'
import { inTrace, newRequestId, traceFields } from '../infra/trace-context.ts'
import { type Span, startSpan } from '../infra/tracing.ts'
import { mountApprovalPages } from './approval-routes.ts'
import { writeAuditEntry } from './audit.ts'
import { methodsByPath, routePath } from './bind.ts'
import { acceptStreams, closeUndrained, hasUploadDeadline, replyBeforeBody } from './body-streams.ts'
import { parseText } from './body-text.ts'
import { mountCallbacks } from './callbacks.ts'
import { allowPages } from './cors.ts'
import { FLOW_SCHEMA_PATH, mountDocs, mountFlowSchema } from './docs.ts'
import { serveHosts } from './host-names.ts'
import { mountDevMail } from './issuer/dev-mail.ts'
import { problemPage, show } from './issuer/forms.ts'
import { mountIssuer } from './issuer/issuer-routes.ts'
import { API_LIMITS } from './limits.ts'
import { allowTemporalUiOrigin, mountPayloadPage } from './payload-viewer.ts'
import { PROBLEM_TYPE, toProblem, toReply } from './problems.ts'
import { mountPublicObjects, PUBLIC_OBJECTS } from './public-objects.ts'
import { isCut, onEnd, sentStatus } from './request-end.ts'
import { measureRequests } from './request-metrics.ts'
import { createHandler, type OperationHandler } from './request-pipeline.ts'
import { EVENT_STREAM_HEADERS, endedStream, endsAsStream } from './response.ts'
import { toS3Reply } from './s3/errors.ts'
import { bucketHosts, distinguishActions, isS3, mountS3 } from './s3/s3-routes.ts'
import { describeTus } from './tus.ts'
import { mountWebhooks } from './webhooks.ts'

/** Builds the application without listening. */
export async function buildApp(platform: Platform, authServices: AuthServices): Promise<FastifyInstance> {
  const app = openServer(platform)
  platform.drain.watch(app.server)
  for (const name of REQUEST_PROPERTIES) app.decorateRequest(name, undefined)
  measureRequests(app, platform.metrics)
  app.setErrorHandler(sendProblem)
  app.setNotFoundHandler((request, reply) => sendProblem(new Problem('route_not_found'), request, reply))
  addHooks(app, platform, authServices)
  parsers(app)
  distinguishActions(app)
  await mountOperations(app, platform, authServices)
  await mountS3(app, platform, authServices.auth)
  mountHealth(app, platform)
  mountFlowSchema(app)
  await mountWebhooks(app, platform)
  await mountCallbacks(app, platform)
  mountPublicObjects(app, platform)
  await mountIssuer(app, authServices, platform.access)
  await mountPayloadPage(app, platform, authServices)
  await mountApprovalPages(app, platform, authServices)
  mountDevMail(app, platform.config)
  await mountDocs(app, platform.config.TENON_DOCS_DIR)
  refuseOtherMethods(app)
  return app
}

const openServer = (platform: Platform): FastifyInstance => {
  const rewriteUrl = bucketHosts(platform.config.TENON_S3_HOST)
  return Fastify({
    ...(rewriteUrl !== undefined && { rewriteUrl }),
    loggerInstance: platform.log as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: CORE_LIMITS.bodyBytesMax,
    requestTimeout: API_LIMITS.bodyTimeoutMs,
    routerOptions: { maxParamLength: 1_024, ignoreTrailingSlash: false, querystringParser },
    genReqId: requestId,
    // One logger for all requests: each line names its request.
    childLoggerFactory: (logger) => logger,
    // Before any hook.
    frameworkErrors: (error, request, reply) =>
      void sendProblem(error, request, (reply as FastifyReply).header('vary', VARY)),
    clientErrorHandler,
    // A list of addresses; if it is empty, X-Forwarded-For is ignored.
    trustProxy: platform.config.TENON_TRUSTED_PROXIES || false,
    http: {
      maxHeaderSize: CORE_LIMITS.headerBytesMax,
      headersTimeout: API_LIMITS.headersTimeoutMs,
      connectionsCheckingInterval: API_LIMITS.connectionsCheckMs,
    },
  })
}

/** The work of every request and reply, in this order. */
function addHooks(app: FastifyInstance, platform: Platform, authServices: AuthServices): void {
  const lines = plainLines(platform.log)
  const gateway = gatewayReader(platform.config.GATEWAY_SECRET)
  const guards = Object.entries(browserGuards(platform.config))
  // Hooks of every request take a callback, which saves a promise each.
  app.addHook('onRequest', (request, reply, done) => {
    // First of all, on every route: removes the headers, so that no later code trusts a client's own.
    request.gateway = gateway(request.raw)
    // On the raw response: the issuer, MCP and event streams reply without Fastify.
    for (const [name, value] of guards) reply.raw.setHeader(name, value)
    reply.header('x-request-id', request.id)
    reply.header('vary', VARY)
    request.span = spanOf(request)
    onEnd(reply, () => endRequest(request, reply, platform, lines))
    inTrace(request.span.trace, () => done(refusalOf(request, platform) ?? requestProblem(request)))
  })
  serveHosts(app, platform)
  app.addHook('onRequest', (request, reply, done) => {
    if (!isPublic(request.url)) return done()
    platform.limiter.limitAnonymous(request.ip).then(({ headers, refused }) => {
      reply.headers(headers)
      done(refused)
    }, done)
  })
  allowPages(app)
  describeTus(app, platform.config.TENON_OBJECT_BYTES_MAX)
  allowTemporalUiOrigin(app, platform.config.TEMPORAL_UI_URL, authServices.payloadSession)
  app.addHook('onSend', (request, reply, payload, done) => {
    const written = writeAuditEntry(platform.audit, request, reply)
    if (written === undefined) done(null, payload)
    else written.then(() => done(null, payload), done)
  })
}

function endRequest(request: FastifyRequest, reply: FastifyReply, { meters }: Platform, lines: Log): void {
  closeUndrained(request)
  logLine(lines, request, reply)
  endSpan(request, reply)
  if (request.workspace !== undefined) meters.count(request.workspace, sentStatus(reply), reply.elapsedTime)
}

async function mountOperations(
  app: FastifyInstance,
  platform: Platform,
  { auth }: AuthServices,
): Promise<void> {
  const mount = (into: FastifyInstance, streams: boolean) => {
    for (const operation of OPERATIONS.filter(({ http }) => (http.takes !== undefined) === streams))
      route(into, operation, createHandler(operation, platform, auth))
  }
  mount(app, false)
  await app.register(async (part) => {
    acceptStreams(part)
    mount(part, true)
  })
}

declare module 'fastify' {
  interface FastifyRequest {
    span: Span | undefined
  }
}

/** Declared beside their types, here, in request-pipeline.ts, host-names.ts, audit.ts and idempotency.ts. */
const REQUEST_PROPERTIES = [
  'span',
  'principal',
  'permission',
  'gateway',
  'pageToken',
  'rateLimits',
  'workspace',
  'servedWorkspace',
  'idempotencyClaim',
  'auditContext',
  'look',
] as const

/** Headers of every reply: no guessing of types (Fetch §3.6), and no embedding by pages of other sites (Fetch §3.7). */
const BROWSER_GUARDS = {
  'x-content-type-options': 'nosniff',
  'cross-origin-resource-policy': 'same-site',
}

/** Also HSTS for a year, over https only (RFC 6797 §7.2); without includeSubDomains, since other hosts may not have it. */
const browserGuards = (config: Config): Record<string, string> => ({
  ...BROWSER_GUARDS,
  ...(publicUrl(config).startsWith('https:') && { 'strict-transport-security': 'max-age=31536000' }),
})

/** The problem of a request line or a `Host` that two readers may understand differently. */
function requestProblem({ url, raw }: FastifyRequest): Problem | undefined {
  if (url.length > CORE_LIMITS.urlBytesMax) return new Problem('uri_too_long')
  // A name or value of the query that is not UTF-8 would be read as another one. The router checks the path.
  if (url.includes('%') && !escapesUtf8(url))
    return new Problem('request_malformed', {
      detail: 'The URL has escapes (%XX) that are not UTF-8.',
      hint: 'Encode names and values of the URL as UTF-8: é is %C3%A9.',
    })
  // Node takes the first of two lines, a proxy perhaps the last (RFC 9112 §3.2).
  if (countHeader('host', raw.rawHeaders) < 2) return undefined
  return new Problem('request_malformed', { detail: 'The header Host was sent more than once.' })
}

/**
 * True if the route needs no credential, and so is limited by address. Probes are not limited: a refusal would say `not ready`. Public
 * objects have a limit of their own.
 */
function isPublic(url: string): boolean {
  const path = pathOf(url)
  if (path.startsWith(PUBLIC_OBJECTS) || isS3(path)) return false
  return path.startsWith('/v1/') ? path === FLOW_SCHEMA_PATH : !isProbe(path)
}

/** Why the process answers probes alone, if it does. */
const refusalOf = ({ url }: FastifyRequest, { installation }: Platform): Problem | undefined =>
  isProbe(pathOf(url)) ? undefined : installation.refusal

const pathOf = (url: string): string => url.split('?', 1)[0] ?? ''

/** WHATWG form rules: a `%` that escapes nothing stays as it is. A name that comes again makes an array. */
function querystringParser(text: string): Record<string, string | string[]> {
  const query: Record<string, string | string[]> = Object.create(null)
  for (const [name, value] of new URLSearchParams(text)) {
    const before = query[name]
    query[name] = before === undefined ? value : [before, value].flat()
  }
  return query
}

function route(app: FastifyInstance, operation: AnyOperation, handler: OperationHandler): void {
  const { authorize, execute, storeReply } = handler
  const methods: readonly string[] = operation.http.methods ?? [operation.http.method]
  app.route({
    method: methods as HTTPMethods[],
    url: routePath(operation),
    config: { operation },
    // A feed has no end, so HEAD has no reply.
    exposeHeadRoute: !methods.includes('HEAD') && operation.http.reply !== 'feed',
    onRequest: authorize,
    handler: execute,
    ...(operation.http.bodyBytesMax !== undefined && { bodyLimit: operation.http.bodyBytesMax }),
    ...(storeReply !== undefined && {
      onSend: (request, reply, body, done) => {
        if (request.idempotencyClaim === undefined) return done(null, body)
        storeReply(request, reply, body).then(() => done(null, body), done)
      },
    }),
  })
}

/** Parses JSON, and the text types that some operation takes. A body may be empty: many clients send the type anyway. */
function parsers(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  const others = OPERATIONS.flatMap(({ http }) => Object.keys(http.otherJson ?? {}))
  parseText(app, ['application/json', 'application/merge-patch+json', ...new Set(others)], parseJson)
  // An empty body may have any type.
  app.addContentTypeParser('*', { parseAs: 'string' }, (_request, body, done) => {
    if (body === '') return done(null, undefined)
    done(new errorCodes.FST_ERR_CTP_INVALID_MEDIA_TYPE())
  })
  const texts = new Set(OPERATIONS.flatMap((operation) => Object.keys(operation.http.texts ?? {})))
  parseText(app, [...texts], (text) => text)
}

/** 405 with `Allow` for a path that exists under other methods (RFC 9110 §15.5.6). */
function refuseOtherMethods(app: FastifyInstance): void {
  for (const [url, allowed] of methodsByPath(OPERATIONS)) {
    const headers = { allow: [...allowed].join(', ') }
    const method = app.supportedMethods.filter((name) => !allowed.has(name))
    const refuse = async () => {
      throw new Problem('method_not_allowed', { detail: `This route answers ${headers.allow}.`, headers })
    }
    app.route({ method, url, onRequest: refuse, handler: refuse })
  }
}

/** The client's id if it is short and harmless, since every log line has it; else a new one. */
function requestId(request: { headers: Record<string, string | string[] | undefined> }): string {
  const requestId = request.headers['x-request-id']
  return typeof requestId === 'string' && /^[A-Za-z0-9._-]{1,128}$/.test(requestId) && !holdsSecret(requestId)
    ? requestId
    : newRequestId()
}

/** A proxy could cache a 404 (RFC 9111 §4.2.2), which is that of one caller. */
const NO_STORE = { 'cache-control': 'private, no-store' }

/** Requests that fail before the first hook, such as a malformed path, lack the headers that hooks set. */
const PROBLEM_HEADERS = { ...NO_STORE, ...BROWSER_GUARDS }

/** A cache must not give the reply of one caller to another. */
const VARY = 'Authorization, apikey, Accept, Origin'

/** Sends the problem of an error, and logs an internal one. */
function sendProblem(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const problem = toProblem(error, request.routeOptions.bodyLimit)
  if (problem.status >= 500 && !problem.row.final)
    request.log.error({ err: problem.cause ?? problem, request_id: request.id }, problem.code)
  // Fastify would close the connection before the sender reads the reply.
  if (problem.code === 'body_too_large') reply.removeHeader('connection')
  const roles = error instanceof RejectedCaller ? error.roles : (request.principal?.roles ?? [])
  const about = {
    id: request.id,
    path: request.url.split('?')[0] ?? '',
    // A token of an admin that names a workspace has the role of an anon key besides.
    showsAdminHint: roles.some((role) => !isPublicRole(role)),
  }
  const wire = isS3(request.url) ? toS3Reply(problem, about) : toReply(problem, about)
  const text = redactText(typeof wire.body === 'string' ? wire.body : JSON.stringify(wire.body))
  reply.headers({
    ...PROBLEM_HEADERS,
    ...wire.headers,
    'x-request-id': request.id,
    'x-problem-code': problem.code,
  })
  if (endsAsStream(problem, request))
    return reply.headers(EVENT_STREAM_HEADERS).send(endedStream(text, wire.headers['retry-after']))
  const page = problemPage(problem, request)
  if (page !== undefined) return show(reply, page)
  return reply
    .code(wire.status)
    .header('content-length', Buffer.byteLength(text))
    .send(replyBeforeBody(text, request))
}

/** The span of a request, named by its route: paths have ids. */
function spanOf({ id, method, headers, routeOptions: { url = 'unknown' } }: FastifyRequest): Span {
  const attributes = { 'http.request.method': method, 'http.route': url }
  return startSpan(id, readTraceparent(headers[TRACEPARENT]), {
    name: `${method} ${url}`,
    kind: 'server',
    attributes,
  })
}

function endSpan({ span, principal, workspace }: FastifyRequest, reply: FastifyReply): void {
  const statusCode = sentStatus(reply)
  const tenant = principal?.tenantId ?? workspace?.tenantId
  const of = {
    'http.response.status_code': statusCode,
    ...(tenant !== undefined && { 'tenon.tenant': tenant }),
    ...(workspace !== undefined && { 'tenon.workspace': workspace.workspaceId }),
  }
  span?.end(of, statusCode >= 500 ? String(statusCode) : undefined)
}

/** One line per request, without the query: callers put secrets there. */
function logLine(lines: Log, request: FastifyRequest, reply: FastifyReply): void {
  lines.info(
    {
      ...traceFields(request.span?.trace),
      method: request.method,
      path: request.originalUrl.split('?')[0],
      status: sentStatus(reply),
      ...(isCut(reply) && { incomplete: true }),
      ms: Math.round(reply.elapsedTime * 10) / 10,
      operation: request.routeOptions.config.operation?.name,
      subject: request.principal?.subject,
      tenant: request.principal?.tenantId ?? request.workspace?.tenantId,
      workspace: request.workspace?.workspaceId,
    },
    'request',
  )
}

/** Replies with a problem to what Node's parser rejects, which never becomes a request. */
function clientErrorHandler(error: NodeJS.ErrnoException, socket: import('node:net').Socket): void {
  if (!socket.writable || (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && hasUploadDeadline(socket))) return
  const problem = new Problem(
    error.code === 'HPE_HEADER_OVERFLOW' ? 'headers_too_large' : 'request_malformed',
  )
  const id = newRequestId()
  const wire = toReply(problem, { id, path: '' })
  const body = JSON.stringify(wire.body)
  const headers = { 'content-type': PROBLEM_TYPE, 'x-request-id': id, ...BROWSER_GUARDS }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  const head = [`HTTP/1.1 ${wire.status} ${problem.row.title}`, ...lines].join('\r\n')
  socket.end(`${head}\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`)
}

/** Probes of orchestrators and balancers, which no rate limit may refuse. */
function mountHealth(app: FastifyInstance, { health }: Platform): void {
  for (const [path, probe] of Object.entries(probesOf(health)))
    app.get(path, async (_request, reply) => {
      const { status, body } = await probe()
      return reply.code(status).header('cache-control', 'no-store').send(body)
    })
}
