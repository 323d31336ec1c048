/** The main module of a function's process: reads one call from stdin and writes its result to stdout. It enforces nothing. */

/**
 * JavaScript for Deno, passed as its main module. User code in the same realm can change all of it, which affects that
 * call alone: the process serves no other, and the host trusts no frame (process.ts).
 *
 * This text never names the code to run: Deno loads the main module and its literal imports without checking permissions,
 * files included. An `import(…)` of a value is checked.
 */
const GUEST = String.raw`
const { stdin, stdout, stderr, exit, inspect, version } = Deno
const { parse, stringify } = JSON
const encoder = new TextEncoder()
const decoder = new TextDecoder()
const write = (out, bytes) => {
  for (let sent = 0; sent < bytes.length; ) sent += out.writeSync(bytes.subarray(sent))
}
write(stdout, encoder.encode('ready ' + version.deno + '\n'))

const reader = stdin.readable.getReader()
const readJob = async () => {
  let got = new Uint8Array(0)
  for (;;) {
    const { done, value } = await reader.read()
    if (done) exit(0)
    const next = new Uint8Array(got.length + value.length)
    next.set(got)
    next.set(value, got.length)
    got = next
    const end = got.indexOf(10)
    if (end < 0) continue
    const size = Number(decoder.decode(got.subarray(0, end)))
    if (got.length >= end + 1 + size) return parse(decoder.decode(got.subarray(end + 1, end + 1 + size)))
  }
}
const job = await readJob()
// The parent process is gone.
void (async () => {
  for (;;) if ((await reader.read()).done) exit(0)
})()

let logLeft = job.logBytes
const log = (...values) => {
  if (logLeft <= 0) return
  const text = values.map((value) => (typeof value === 'string' ? value : inspect(value))).join(' ')
  const bytes = encoder.encode(text + '\n').subarray(0, logLeft)
  logLeft -= bytes.length
  write(stderr, bytes)
}
for (const name of ['log', 'info', 'debug', 'warn', 'error']) console[name] = log

let answered = false
const answer = (kind, text) => {
  if (answered) return
  answered = true
  const body = encoder.encode(text)
  const head = encoder.encode('\n' + job.nonce + ' ' + kind + ' ' + body.length + '\n')
  write(stdout, head)
  if (body.length <= job.resultBytesMax) write(stdout, body)
}

const FRAME = /data:application\/javascript;base64,[\w+\/=.]*:(\d+):(\d+)/
const NAMED = /\s*\bat data:\S+|data:(application|text)\/javascript;base64,[^\s:]*/g
const NONE = 'functions have no network, files, environment or processes'
const describe = (thrown) => {
  if (!(thrown instanceof Error)) return { name: 'Error', message: typeof thrown === 'string' ? thrown : inspect(thrown) }
  const [, line, column] = FRAME.exec(String(thrown.stack)) ?? []
  const denied = /Requires (\w+) access/.exec(thrown.message)
  const text = denied ? denied[0] + ': ' + NONE + '.' : String(thrown.message).replace(NAMED, '')
  const memory = thrown instanceof RangeError && /allocat/i.test(thrown.message)
  return { name: String(thrown.name), message: text, line: Number(line), column: Number(column), memory }
}
const fail = (thrown) => {
  let described
  try {
    described = describe(thrown)
  } catch {
    described = { name: 'Error', message: 'It threw something that cannot be shown.' }
  }
  answer('error', stringify(described))
}
addEventListener('unhandledrejection', (event) => {
  event.preventDefault()
  fail(event.reason)
})
addEventListener('error', (event) => {
  event.preventDefault()
  fail(event.error)
})

try {
  const { default: handler } = await import('data:application/javascript;base64,' + job.code)
  if (typeof handler !== 'function') throw new TypeError('The default export is not a function.')
  const result = await handler(job.input, job.context ?? {})
  answer('result', stringify(result) ?? 'null')
} catch (thrown) {
  fail(thrown)
}
`

/** The main module. Its media type differs from that of user code, which tells positions in the two apart. */
export const GUEST_URL = `data:text/javascript;base64,${Buffer.from(GUEST).toString('base64')}`

/** The call, sent as `<bytes>\n<json>`. */
export interface GuestJob {
  readonly nonce: string
  /** JavaScript in base64. */
  readonly code: string
  readonly input: unknown
  readonly context?: unknown
  readonly logBytes: number
  readonly resultBytesMax: number
}

/** The error that user code threw, unverified: every member may be missing or of another type. */
export interface GuestError {
  readonly name?: unknown
  readonly message?: unknown
  readonly line?: unknown
  readonly column?: unknown
  readonly memory?: unknown
}
