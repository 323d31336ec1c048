/** Container images as sources: the arguments of the engine, references, variables, and messages over standard output. */

import { Value } from 'typebox/value'
import { expect, test } from 'vitest'
import {
  ImageReference,
  imageSettings,
  requireLine,
} from '../../../src/features/mcp-servers/images/image-settings.ts'
import { runArguments } from '../../../src/features/mcp-servers/images/oci-runtime.ts'
import { StdioConversation } from '../../../src/features/mcp-servers/images/stdio-post.ts'
import { parseConfig } from '../../../src/infra/config.ts'

const DIGEST = `@sha256:${'a'.repeat(64)}`
const IMAGE = `registry.test/acme/tools${DIGEST}`
const START = {
  image: IMAGE,
  commandArgs: ['--privileged', '-v', '/:/host'],
  limits: { memory_mb: 128, cpus: 0.5, pids: 32, timeout_seconds: 5 },
  owner: { tenantId: 'ten_1', workspaceId: 'ws_1', source: 'src_1' },
}
const args = runArguments(START, { name: 'tenon-mcp-1', envFile: '/tmp/x/env', untilS: 100 })
const options = args.slice(0, args.indexOf(IMAGE))

test.each([
  [['--network', 'none']],
  [['--read-only']],
  [['--user', '65534:65534']],
  [['--cap-drop', 'ALL']],
  [['--security-opt', 'no-new-privileges']],
  [['--pids-limit', '32']],
  [['--memory', '128m']],
  [['--memory-swap', '128m']],
  [['--cpus', '0.5']],
  [['--tmpfs', '/tmp:rw,noexec,nosuid,nodev,size=64m']],
  [['--ulimit', 'nofile=1024:1024']],
  [['--pull', 'never']],
  [['--log-driver', 'none']],
  [['--no-healthcheck']],
  [['--rm']],
  [['--restart', 'no']],
  [['--label', 'tenon.tenant=ten_1']],
  [['--env-file', '/tmp/x/env']],
])('arguments of the engine: have %j (T42)', (wanted) => {
  const at = options.findIndex((_one, index) => wanted.every((word, n) => options[index + n] === word))
  expect(at).toBeGreaterThan(0)
})

test('arguments of the engine: nothing of the host, nothing that weakens, and the tenant’s only after the image (T42)', () => {
  const weak =
    /^(?:--(?:volume|mount|device|privileged|cap-add|env|publish|expose|gpus|userns|pid|uts|add-host|entrypoint)|-[vepP])\b/
  expect(options.filter((one) => weak.test(one) && one !== '--env-file')).toEqual([])
  expect(options.filter((one) => /seccomp|apparmor|unconfined|host/.test(one))).toEqual([])
  expect(args.slice(args.indexOf(IMAGE) + 1)).toEqual(START.commandArgs)
})

const accepted = (reference: string) => Value.Check(ImageReference, reference)

test.each([IMAGE, `localhost:5000/x${DIGEST}`, `ghcr.io/a/b-c/d_e.f${DIGEST}`, 'dev:echo'])(
  'image %s: a reference (T42)',
  (reference) => expect(accepted(reference)).toBe(true),
)

test.each([
  'registry.test/acme/tools:latest',
  'registry.test/acme/tools',
  `registry.test/acme/tools:1.0${DIGEST}`,
  `acme/tools${DIGEST}`,
  `tools${DIGEST}`,
  `--privileged/x${DIGEST}`,
  `-v.x/y${DIGEST}`,
  `registry.test/../x${DIGEST}`,
  `registry.test/a b${DIGEST}`,
  `registry.test/a\n${DIGEST}`,
  `registry.test/a;id${DIGEST}`,
  `registry.test/a$(id)${DIGEST}`,
  `registry.test/A${DIGEST}`,
  `registry.test/a@sha256:${'a'.repeat(63)}`,
  `registry.test/a@md5:${'a'.repeat(32)}`,
  `${IMAGE}\n`,
  `${IMAGE} --privileged`,
  'dev:../echo',
  'dev:',
  `registry.test/${'a-'.repeat(300)}${DIGEST}`,
])('hostile image %j: no reference (T42)', (reference) => expect(accepted(reference)).toBe(false))

test('variables: names that are none, secrets in clear, and values of several lines: refused (T42)', () => {
  const settings = (env: Record<string, { value: string }>) => imageSettings({ image: IMAGE, env })
  for (const name of ['A=B', 'A\nB', '', '1A', 'Ä', '#A', ' A'])
    expect(() => settings({ [name]: { value: 'x' } })).toThrow(/no name of an environment variable/)
  expect(() => settings({ API_KEY: { value: 'x' } })).toThrow(/holds a secret/)
  for (const value of ['a\nPATH=/evil', 'a\rb', 'a\0b', 5, undefined])
    expect(() => requireLine('key', value)).toThrow(/secret key/)
  expect(imageSettings({ image: IMAGE }).limits).toEqual({
    memory_mb: 256,
    cpus: 0.5,
    pids: 64,
    timeout_seconds: 20,
  })
})

test('server of the operator: takes no arguments and no variables of a tenant (T45)', () => {
  expect(() => imageSettings({ image: 'dev:echo', command_args: ['--eval', 'x'] })).toThrow(/takes neither/)
  expect(() => imageSettings({ image: 'dev:echo', env: { NODE_OPTIONS: { value: 'x' } } })).toThrow(
    /takes neither/,
  )
})

test('commands for development: refused where other machines reach the platform (T45)', () => {
  const env = {
    TENON_MASTER_KEY: Buffer.alloc(32).toString('base64'),
    DATABASE_APP_URL: 'postgres://localhost/x',
    TEMPORAL_ADDRESS: 'localhost:7233',
    S3_ENDPOINT: 'http://localhost:9000',
    S3_ACCESS_KEY_ID: 'a',
    S3_SECRET_ACCESS_KEY: 'b',
    REDIS_URL: 'redis://localhost',
    TENON_DEV_STDIO_SERVERS: '{"echo":["node","/x.mjs"]}',
  }
  expect(parseConfig(env).TENON_DEV_STDIO_SERVERS).toEqual({ echo: ['node', '/x.mjs'] })
  for (const hostile of [
    { TENON_HOST: '0.0.0.0' },
    { TENON_PUBLIC_URL: 'https://tenon.example' },
    { TENON_PUBLIC_URL: 'http://127.0.0.1.evil.example' },
  ])
    expect(() => parseConfig({ ...env, ...hostile })).toThrow(/TENON_DEV_STDIO_SERVERS is for development/)
  for (const text of ['[]', '{"echo":"node"}', '{"../x":["node"]}', '{"echo":[]}', 'node'])
    expect(() => parseConfig({ ...env, TENON_DEV_STDIO_SERVERS: text })).toThrow(/TENON_DEV_STDIO_SERVERS/)
  for (const engine of ['rm -rf /', 'sh', './docker', '/bin/x y'])
    expect(() => parseConfig({ ...env, TENON_CONTAINER_ENGINE: engine })).toThrow(/TENON_CONTAINER_ENGINE/)
})

test('messages: answers go to their requests in any order, pings are answered, and an end fails what waits', async () => {
  const sent: { id: number; method?: string; result?: object }[] = []
  const conversation = new StdioConversation()
  conversation.connect({ send: (line) => sent.push(JSON.parse(line)) })
  const ask = async (method: string) => {
    const { body } = await conversation.post({}, JSON.stringify({ jsonrpc: '2.0', id: 1, method }), {})
    return JSON.parse(body.toString())
  }
  const [first, second] = [ask('a'), ask('b')]
  expect(sent.map(({ id, method }) => [id, method])).toEqual([
    [1, 'a'],
    [2, 'b'],
  ])
  conversation.onMessage('{"jsonrpc":"2.0","id":2,"result":{"n":2}}')
  conversation.onMessage('{"jsonrpc":"2.0","id":"p","method":"ping"}')
  conversation.onMessage('{"jsonrpc":"2.0","id":1,"result":{"n":1}}')
  expect(await Promise.all([first, second])).toMatchObject([
    { id: 1, result: { n: 1 } },
    { id: 1, result: { n: 2 } },
  ])
  expect(sent.at(-1)).toMatchObject({ id: 'p', result: {} })
  const third = ask('c')
  conversation.onMessage('not JSON')
  await expect(third).rejects.toThrow(/that is not a message/)
  await expect(ask('d')).rejects.toThrow(/that is not a message/)
})
