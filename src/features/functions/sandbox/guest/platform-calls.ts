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
    next.whenSent?.()
  }
}
/** @returns the frame of the reply */
const ask = (invocation, kind, json = NO_BYTES, bytes = NO_BYTES, whenSent = undefined) =>
  new Promise((resolve, reject) => {
    if (invocation === undefined) return reject(OUTSIDE())
    if (invocation.ended) return reject(ENDED())
    invocation.queue.push({ kind, json, bytes, whenSent, resolve, reject })
    sendQueued(invocation)
  })
const settle = (frame) => {
  const call = current?.open.get(frame.id) ?? current?.chunks.get(frame.id)
  if (call === undefined) return
  call.resolve(frame)
  if (current.chunks.delete(frame.id)) return
  current.open.delete(frame.id)
  current.openBytes -= call.size
  sendQueued(current)
}
/** Moves a chunk of a content: never queued, since calls that are open may wait for it. @returns the frame of the reply */
const move = (invocation, kind, stream, bytes = NO_BYTES) =>
  new Promise((resolve, reject) => {
    if (invocation.ended) return reject(ENDED())
    const id = ++invocation.lastId
    invocation.chunks.set(id, { resolve })
    send(invocation.nonce, kind, id, encode(String(stream)), bytes)
  })

const RealStream = ReadableStream
const RealBlob = Blob
/** How many bytes are left of the contents that the platform sends, by their streams. */
const LEFT = new WeakMap()

/** The Response of a content. A long one is read from the worker when the code reads it. */
const responseOf = (invocation, { json, bytes }) => {
  const { status, headers, stream } = parse(decode(json))
  if (stream === undefined) return new RealResponse(BODYLESS.includes(status) ? null : bytes, { status, headers })
  const left = { bytes: Number(new Headers(headers).get('content-length')) }
  const pull = async (controller) => {
    const reply = await move(invocation, 'p', stream)
    if (reply.kind === 'e') throw new TenonError(parse(decode(reply.json)))
    if (reply.kind === 'z') return controller.close()
    left.bytes -= reply.bytes.length
    controller.enqueue(reply.bytes)
  }
  const cancel = () => move(invocation, 'd', stream)
  const body = new RealStream({ pull, cancel }, { highWaterMark: 0 })
  const response = new RealResponse(body, { status, headers })
  LEFT.set(response.body, left)
  return response
}

const lengthOf = (stream) => LEFT.get(stream)?.bytes
/** Bytes that the code gives as the content of an object: as one array or a stream, with what is known of them; undefined for JSON and texts. */
const givenContent = (value) => {
  if (value instanceof RealResponse) {
    if (value.bodyUsed) throw new TypeError('The body of the Response was read already.')
    const type = value.headers.get('content-type') ?? undefined
    return value.body === null ? { bytes: NO_BYTES, type } : { stream: value.body, length: lengthOf(value.body), type }
  }
  if (value instanceof RealBlob) return { stream: value.stream(), length: value.size, type: value.type || undefined }
  if (value instanceof RealStream) return { stream: value, length: lengthOf(value) }
  if (value instanceof ArrayBuffer) return { bytes: new Uint8Array(value) }
  if (ArrayBuffer.isView(value)) return { bytes: new Uint8Array(value.buffer, value.byteOffset, value.byteLength) }
  return undefined
}

/** Sends a content piece by piece, as the worker takes it. It ends early if the worker takes no more. */
const sendContent = async (invocation, number, { stream, bytes }) => {
  const size = invocation.limits.chunkBytesMax
  const sendChunk = async (chunk) => {
    if (!(chunk instanceof Uint8Array)) throw new TypeError('The content of an object must be a stream of bytes.')
    for (let from = 0; from < chunk.length; from += size) {
      const { kind } = await move(invocation, 's', number, chunk.subarray(from, from + size))
      if (kind === 'e') return false
    }
    return true
  }
  if (bytes !== undefined) {
    if (await sendChunk(bytes)) await move(invocation, 's', number)
    return
  }
  const reader = stream.getReader()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) break
      if (!(await sendChunk(value))) return await reader.cancel()
    }
    await move(invocation, 's', number)
  } catch (thrown) {
    if (!invocation.ended) await move(invocation, 'a', number)
    throw thrown
  }
}

/** The arguments of a call whose content is bytes, and how these are sent. */
const withContent = (invocation, args, at) => {
  const given = givenContent(args[at])
  if (given === undefined) return { args }
  const { bytes, length = bytes?.length, type } = given
  const options = { ...(type !== undefined && { content_type: type }), ...args[at + 1] }
  const known = args.with(at, null)
  known[at + 1] = options
  if (bytes !== undefined && bytes.length <= (invocation?.limits.chunkBytesMax ?? 0)) return { args: known, content: { at }, bytes }
  const stream = invocation === undefined ? 0 : ++invocation.lastContent
  return { args: known, content: { at, stream, length }, send: () => sendContent(invocation, stream, given) }
}

// An error is made where the caller waits, so that its stack leads there.
const callHost = async (invocation, method, given) => {
  const { args, content, bytes, send: sendLater } = method === 'objects.put' ? withContent(invocation, given, 2) : { args: given }
  const count = args.findLastIndex((value) => value !== undefined) + 1
  const json = encode(stringify({ method, args: args.slice(0, count), content }))
  if (json.length > (invocation?.limits.callBytesMax ?? 0)) {
    if (invocation === undefined) throw OUTSIDE()
    const detail = 'The arguments have ' + json.length + ' bytes; at most ' + invocation.limits.callBytesMax + ' are taken.'
    throw new TenonError({ code: 'body_too_large', status: 413, detail })
  }
  let failure
  const whenSent = () => {
    failure = sendLater?.().then(() => undefined, (thrown) => ({ thrown }))
  }
  const reply = await ask(invocation, 'c', json, bytes, whenSent)
  const failed = reply.kind === 'e' ? await failure : undefined
  if (failed !== undefined) throw failed.thrown
  if (reply.kind === 'e') throw new TenonError(parse(decode(reply.json)))
  return reply.kind === 'b' ? responseOf(invocation, reply) : parse(decode(reply.json))
}

const METHODS = {
  collections: ['create', 'get', 'query', 'list', 'aggregate', 'update', 'patch', 'delete', 'updateMany', 'deleteMany'],
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
  tenon.batch = async (...args) => callHost(invocationOf(), 'batch', args)
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
