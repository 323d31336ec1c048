/** Part of the program in a function's process: invocations, one after the other. */

export const MAIN = String.raw`
let codeUrl
let loading

const answer = (invocation, kind, text) => {
  if (invocation.ended) return
  invocation.ended = true
  clearTimers()
  const json = encode(text)
  send(invocation.nonce, kind, 0, json, NO_BYTES, json.length > invocation.limits.resultBytesMax)
}
const fail = (invocation, thrown, fatal) =>
  answer(invocation, 'x', stringify({ ...describeSafely(thrown), fatal }))

for (const [name, thrownOf] of [['unhandledrejection', (event) => event.reason], ['error', (event) => event.error]])
  addEventListener(name, (event) => {
    event.preventDefault()
    // Errors of an earlier invocation are none of the present one.
    if (storedInvocation()?.ended) return
    if (current === undefined || current.ended) exit(1)
    fail(current, thrownOf(event), true)
  })

/** Sends the body of a response. Chunks that are read while others are under way go together, up to the size of a frame. */
const sendBody = async (invocation, reader) => {
  const { chunkBytesMax } = invocation.limits
  let waiting = new Uint8Array(0)
  let size = 0
  let sending
  let isGone = false
  const sendWaiting = async () => {
    while (size > 0 && !isGone) {
      const bytes = waiting.subarray(0, size)
      waiting = new Uint8Array(0)
      size = 0
      const { kind } = await ask(invocation, 'w', NO_BYTES, bytes)
      isGone = kind === 'e'
    }
    sending = undefined
  }
  const add = (bytes) => {
    if (size + bytes.length > waiting.length) {
      const larger = new Uint8Array(min(chunkBytesMax, max(2 * waiting.length, size + bytes.length)))
      larger.set(waiting.subarray(0, size))
      waiting = larger
    }
    waiting.set(bytes, size)
    size += bytes.length
  }
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      if (!(value instanceof Uint8Array)) throw new TypeError('The body of a Response must be bytes.')
      for (let from = 0; from < value.length && !isGone; ) {
        if (size === chunkBytesMax) await sending
        const part = value.subarray(from, from + chunkBytesMax - size)
        add(part)
        from += part.length
        sending ??= sendWaiting()
      }
      if (isGone) return await reader.cancel()
    }
  } finally {
    await sending
  }
}

/** Serves an HTTP request by the export fetch. Chunks in both directions wait for each other's reader. */
const serve = async (invocation, handler, context) => {
  const { method, url, headers } = invocation.input
  const pull = async (controller) => {
    const reply = await ask(invocation, 'q')
    if (reply.kind === 'b') controller.enqueue(reply.bytes)
    else if (reply.kind === 'z') controller.close()
    else controller.error(new TenonError(parse(decode(reply.json))))
  }
  const hasBody = method !== 'GET' && method !== 'HEAD'
  const body = hasBody ? new ReadableStream({ pull }, { highWaterMark: 0 }) : null
  const response = await handler(new RealRequest(url, { method, headers, body }), context)
  if (!(response instanceof RealResponse)) throw new TypeError('The export fetch did not return a Response.')
  if (response.bodyUsed) throw new TypeError('The body of the Response was read already.')
  // It throws for a body that other code reads.
  const reader = response.body?.getReader()
  const head = encode(stringify({ status: response.status, headers: [...response.headers] }))
  const accepted = await ask(invocation, 'h', head)
  if (accepted.kind === 'e') throw new TenonError(parse(decode(accepted.json)))
  if (reader !== undefined) await sendBody(invocation, reader)
}

const invoke = async ({ nonce, kind, input, context, limits }) => {
  const invocation = {
    ...{ nonce: Uint8Array.fromHex(nonce), input, context, limits },
    ...{ queue: [], open: new Map(), openBytes: 0, lastId: 0, chunks: new Map(), lastContent: 0, logLeft: limits.logBytes + 1, ended: false },
  }
  current = invocation
  send(invocation.nonce, 'g', 0)
  let isLoaded = false
  const work = async () => {
    loading ??= import(codeUrl)
    const module = await loading
    isLoaded = true
    const own = () => invocation
    const given = { ...context, log: makeLog(own), tenon: makeTenon(own) }
    const name = kind === 'fetch' ? 'fetch' : 'default'
    const handler = module[name]
    if (typeof handler !== 'function') throw new TypeError('The ' + (name === 'fetch' ? 'export fetch' : 'default export') + ' is not a function.')
    if (kind === 'fetch') return await serve(invocation, handler, given)
    return await handler(input, given)
  }
  try {
    const result = await invocationStorage.run(invocation, work)
    if (result instanceof RealResponse) answer(invocation, 'x', '{"response":true}')
    else answer(invocation, 'r', stringify(result) ?? 'null')
  } catch (thrown) {
    fail(invocation, thrown, !isLoaded)
  }
}

writeAll(encode('ready ' + version.deno + '\n'))
for (;;) {
  const frame = await readFrame()
  if (frame.kind === 'c') {
    codeUrl = 'data:application/javascript;base64,' + decode(frame.bytes)
    sourceMapText = frame.json
  } else if (frame.kind === 'i') void invoke(parse(decode(frame.json)))
  else settle(frame)
}
`
