/** Part of the program in a function's process: frames on stdin and stdout; see frames.ts. */

export const CHANNEL = `
// Code of the function may change globals later; what this program needs is taken before.
const { stdin, stdout, exit, inspect, version } = Deno
const { parse, stringify } = JSON
const { max, min } = Math
const encoder = new TextEncoder()
const decoder = new TextDecoder()
const encode = encoder.encode.bind(encoder)
const decode = decoder.decode.bind(decoder)
const readSome = stdin.read.bind(stdin)
const writeSome = stdout.writeSync.bind(stdout)
const NO_BYTES = new Uint8Array(0)
const FRAME_HEAD = 13
const NONCE = 16

const writeAll = (bytes) => {
  for (let sent = 0; sent < bytes.length; ) sent += writeSome(bytes.subarray(sent))
}

/** Writes a frame. With shortened, its head alone, so that the worker sees the size. */
const send = (nonce, kind, id, json = NO_BYTES, bytes = NO_BYTES, shortened = false) => {
  const frame = new Uint8Array(NONCE + FRAME_HEAD + (shortened ? 0 : json.length + bytes.length))
  const view = new DataView(frame.buffer)
  frame.set(nonce)
  view.setUint8(NONCE, kind.charCodeAt(0))
  view.setUint32(NONCE + 1, id)
  view.setUint32(NONCE + 5, json.length)
  view.setUint32(NONCE + 9, bytes.length)
  if (!shortened) {
    frame.set(json, NONCE + FRAME_HEAD)
    frame.set(bytes, NONCE + FRAME_HEAD + json.length)
  }
  writeAll(frame)
}

const piece = new Uint8Array(65536)
let ahead = NO_BYTES
/** Reads exactly so many bytes; ends the process if the worker is gone. */
const take = async (size) => {
  if (ahead.length >= size) {
    const taken = ahead.subarray(0, size)
    ahead = ahead.subarray(size)
    return taken
  }
  const whole = new Uint8Array(size)
  whole.set(ahead)
  let got = ahead.length
  ahead = NO_BYTES
  while (got < size) {
    const count = await readSome(piece)
    if (count === null) exit(0)
    const used = min(count, size - got)
    whole.set(piece.subarray(0, used), got)
    got += used
    if (used < count) ahead = piece.slice(used, count)
  }
  return whole
}

const readFrame = async () => {
  const head = await take(FRAME_HEAD)
  const view = new DataView(head.buffer, head.byteOffset, FRAME_HEAD)
  const kind = String.fromCharCode(view.getUint8(0))
  const [id, jsonSize, size] = [view.getUint32(1), view.getUint32(5), view.getUint32(9)]
  return { kind, id, json: await take(jsonSize), bytes: await take(size) }
}
`
