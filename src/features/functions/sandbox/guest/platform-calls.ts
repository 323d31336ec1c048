/** Part of the program in a function's process: calls of the worker, and what the code gets to make them. */

export const HOST_CALLS = `
/** The invocation that the present code belongs to; promises that outlive it keep it. */
const invocationStorage = new AsyncLocalStorage()
let current

const ENDED = () => new TenonError({ code: 'run_ended', status: 409, detail: 'The invocation has ended.' })
const OUTSIDE = () => new TenonError({ code: 'run_ended', status: 409, detail: 'No invocation is running here.' })

/** Sends queued calls, as many as may be open. */
const sendQueued = (invocation) => {
  const { queue, open, limits } = invocation
  while (queue.length > 0 && open.size < limits.callsOpenMax && !invocation.ended) {
    const next = queue[0]
    const size = next.json.length + next.bytes.length
    if (invocation.openBytes > 0 && invocation.openBytes + size > limits.bytesOpenMax) return
    queue.shift()
    const id = ++invocation.lastId
    invocation.openBytes += size
    open.set(id, { ...next, size })
    send(invocation.nonce, next.kind, id, next.json, next.bytes)
  }
}
/** @returns the frame of the reply */
const ask = (invocation, kind, json = NO_BYTES, bytes = NO_BYTES) =>
  new Promise((resolve, reject) => {
    if (invocation === undefined) return reject(OUTSIDE())
    if (invocation.ended) return reject(ENDED())
    invocation.queue.push({ kind, json, bytes, resolve, reject })
    sendQueued(invocation)
  })
const settle = (frame) => {
  const call = current?.open.get(frame.id)
  if (call === undefined) return
  current.open.delete(frame.id)
  current.openBytes -= call.size
  call.resolve(frame)
  sendQueued(current)
}

// An error is made where the caller waits, so that its stack leads there.
const callHost = async (invocation, method, args) => {
  const count = args.findLastIndex((value) => value !== undefined) + 1
  const json = encode(stringify({ method, args: args.slice(0, count) }))
  if (json.length > (invocation?.limits.callBytesMax ?? 0)) {
    if (invocation === undefined) throw OUTSIDE()
    const detail = 'The arguments have ' + json.length + ' bytes; at most ' + invocation.limits.callBytesMax + ' are taken.'
    throw new TenonError({ code: 'body_too_large', status: 413, detail })
  }
  const reply = await ask(invocation, 'c', json)
  if (reply.kind === 'e') throw new TenonError(parse(decode(reply.json)))
  return parse(decode(reply.json))
}

const METHODS = {
  collections: ['create', 'get', 'query', 'list', 'update', 'delete'],
  objects: ['get', 'put', 'delete', 'list'],
  events: ['publish'],
  functions: ['invoke'],
  flows: ['start', 'get'],
}
const makeTenon = (invocationOf) => {
  const tenon = {}
  for (const [area, methods] of Object.entries(METHODS)) {
    tenon[area] = {}
    for (const method of methods)
      tenon[area][method] = async (...args) => callHost(invocationOf(), area + '.' + method, args)
    Object.freeze(tenon[area])
  }
  return Object.freeze(tenon)
}

const textOf = (values) => values.map((value) => (typeof value === 'string' ? value : inspect(value))).join(' ')
const printLine = (invocation, level, values) => {
  if (invocation === undefined || invocation.ended || invocation.logLeft <= 0) return
  const bytes = encode(withOrigins(textOf(values)))
  const { logLineBytesMax, logLineCostBytes } = invocation.limits
  const line = bytes.length > logLineBytesMax ? encode(decode(bytes.subarray(0, logLineBytesMax - 8)) + '…') : bytes
  invocation.logLeft -= line.length + logLineCostBytes
  send(invocation.nonce, 'l', 0, encode(level), line)
}
const makeLog = (invocationOf) => {
  const log = (...values) => printLine(invocationOf(), 'info', values)
  for (const level of ['debug', 'info', 'warn', 'error'])
    log[level] = (...values) => printLine(invocationOf(), level, values)
  return Object.freeze(log)
}
const storedInvocation = () => invocationStorage.getStore()
const anyLog = makeLog(() => storedInvocation() ?? current)
for (const [name, level] of Object.entries({ log: 'info', info: 'info', debug: 'debug', trace: 'debug', warn: 'warn', error: 'error' }))
  console[name] = anyLog[level]

/** The timers that are set, with the functions that clear them. */
const timers = new Map()
const clearTimers = () => {
  for (const [timer, clear] of timers) clear(timer)
  timers.clear()
}
// A timer that outlived its invocation would run in the next one, whose caller is another.
for (const kind of ['Timeout', 'Interval', 'Immediate']) {
  const { ['set' + kind]: start, ['clear' + kind]: clear } = globalThis
  globalThis['set' + kind] = (callback, ...rest) => {
    if ((storedInvocation() ?? current)?.ended) return 0
    const once = (...args) => {
      timers.delete(timer)
      callback(...args)
    }
    const timer = start(kind === 'Interval' || typeof callback !== 'function' ? callback : once, ...rest)
    timers.set(timer, clear)
    return timer
  }
  globalThis['clear' + kind] = (timer) => {
    timers.delete(timer)
    clear(timer)
  }
}

const TIMER_MAX_MS = 2 ** 31 - 1
const startTimeout = globalThis.setTimeout
AbortSignal.timeout = (ms) => {
  if (!(ms >= 0)) throw new TypeError('AbortSignal.timeout takes a number of milliseconds from 0.')
  const controller = new AbortController()
  startTimeout(() => controller.abort(new DOMException('Signal timed out.', 'TimeoutError')), min(ms, TIMER_MAX_MS))
  return controller.signal
}

/** The members of the running invocation's context, whichever it is. */
const liveView = (name) => {
  const now = () => storedInvocation()?.context[name] ?? {}
  return new Proxy({}, {
    get: (_, key) => (Object.hasOwn(now(), key) ? now()[key] : undefined),
    has: (_, key) => Object.hasOwn(now(), key),
    ownKeys: () => Reflect.ownKeys(now()),
    getOwnPropertyDescriptor: (_, key) =>
      Object.hasOwn(now(), key) ? { value: now()[key], enumerable: true, configurable: true, writable: false } : undefined,
    set: () => false,
    defineProperty: () => false,
    deleteProperty: () => false,
  })
}

const RealRequest = Request
const RealResponse = Response
const BODYLESS = [204, 205, 304]
globalThis.fetch = async (resource, init) => {
  const request = new RealRequest(resource, init)
  request.signal.throwIfAborted()
  const body = request.body === null ? NO_BYTES : new Uint8Array(await request.arrayBuffer())
  const invocation = storedInvocation()
  const max = invocation?.limits.bodyBytesMax ?? 0
  if (body.length > max) throw new TypeError('The body of a request may have ' + max + ' bytes.')
  const { method, url, signal, redirect } = request
  const head = encode(stringify({ method, url, redirect, headers: [...request.headers], hasBody: request.body !== null }))
  const aborted = new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }))
  const reply = await Promise.race([ask(invocation, 'f', head, body), aborted])
  const answer = parse(decode(reply.json))
  if (reply.kind === 'e') {
    const error = new TypeError(answer.detail ?? answer.message)
    throw Object.assign(error, { code: answer.code, status: answer.status })
  }
  const { status, headers } = answer
  const response = new RealResponse(BODYLESS.includes(status) ? null : reply.bytes, { status, headers })
  Object.defineProperty(response, 'url', { value: answer.url ?? url.split('#')[0] })
  Object.defineProperty(response, 'redirected', { value: answer.url !== undefined })
  return response
}

globalThis[Symbol.for('tenon')] = {
  tenon: makeTenon(storedInvocation),
  log: makeLog(storedInvocation),
  env: liveView('env'),
  secrets: liveView('secrets'),
}
await import('tenon')
delete globalThis[Symbol.for('tenon')]
`

/** The module `tenon`, which takes its exports over before code of a function runs. */
export const TENON_MODULE = `export const { tenon, log, env, secrets } = globalThis[Symbol.for('tenon')]`
