/**
 * `npm run test:kms`: master keys that AWS KMS wraps, with moto as KMS, which is installed below `.tenon` from PyPI. A key is made and read,
 * API and worker start with it, and what KMS refuses is told with its reason.
 */

import { equal, match, rejects } from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { CreateAliasCommand, CreateKeyCommand, EncryptCommand, KMSClient } from '@aws-sdk/client-kms'
import { makeMasterKey, withMasterKeys } from '../../../src/infra/crypto/key-provider.ts'
import { parseMasterKeys } from '../../../src/infra/crypto/master-keys.ts'
import { Ports } from '../../../stack/ports.ts'
import { startPlatform } from '../../support/stack/start.ts'

const execute = promisify(execFile)
const FOLDER = resolve('.tenon/kms')
const CONTEXT = { EncryptionContext: { purpose: 'tenon:master-key' } }

/** @returns the path of the server, installed if necessary */
async function findMoto(): Promise<string> {
  const bin = join(FOLDER, 'python/bin')
  const server = join(bin, 'moto_server')
  const isThere = await execute(server, ['--help']).then(
    () => true,
    () => false,
  )
  if (isThere) return server
  await execute('python3', ['-m', 'venv', join(FOLDER, 'python')])
  await execute(join(bin, 'python'), ['-m', 'pip', 'install', '--quiet', 'moto[kms,server]'])
  return server
}

async function startMoto(): Promise<{ readonly url: string; stop(): void }> {
  const port = await new Ports({ remembered: {}, any: true }).take('kms', 0)
  const child = spawn(await findMoto(), ['-H', '127.0.0.1', '-p', String(port)], { stdio: 'ignore' })
  const url = `http://127.0.0.1:${port}`
  const untilMs = Date.now() + 60_000
  while (!(await fetch(url).catch(() => undefined))) {
    if (child.exitCode !== null || Date.now() > untilMs) throw new Error('moto does not start')
    await new Promise((done) => setTimeout(done, 100))
  }
  return { url, stop: () => void child.kill() }
}

const dir = await mkdtemp(join(tmpdir(), 'tenon-kms-'))
const moto = await startMoto()
const AWS = {
  AWS_ENDPOINT_URL_KMS: moto.url,
  AWS_REGION: 'eu-central-1',
  AWS_ACCESS_KEY_ID: 'test',
  AWS_SECRET_ACCESS_KEY: 'test',
}
Object.assign(process.env, AWS)
const kms = new KMSClient()
const newKmsKey = async () => (await kms.send(new CreateKeyCommand())).KeyMetadata?.KeyId ?? ''
const wrap = async (KeyId: string, key: string, context = CONTEXT) => {
  const request = { KeyId, Plaintext: Buffer.from(key, 'base64'), ...context }
  return Buffer.from((await kms.send(new EncryptCommand(request))).CiphertextBlob ?? []).toString('base64')
}

/** The settings of a process whose master keys are wrapped. */
const settings = (TENON_KMS_KEY_ID: string, TENON_MASTER_KEY: string) => ({
  TENON_KEY_PROVIDER: 'kms',
  TENON_KMS_KEY_ID,
  TENON_MASTER_KEY,
})

const CHECKS: Readonly<Record<string, () => Promise<void>>> = {
  'new key: wrapped by KMS, and unwrapped to 32 bytes that it does not show': async () => {
    const id = await newKmsKey()
    const [one, other] = [await makeMasterKey(settings(id, '')), await makeMasterKey(settings(id, ''))]
    const { TENON_MASTER_KEY: keys = '' } = await withMasterKeys(settings(id, `${one},${other}`))
    equal(parseMasterKeys(keys).length, 2)
    equal(keys.includes(one), false)
  },
  'file of wrapped keys, one a line: read in its order': async () => {
    const id = await newKmsKey()
    const file = join(dir, 'keys')
    const keys = [1, 2].map((n) => Buffer.alloc(32, n).toString('base64')) as [string, string]
    await writeFile(file, `${await wrap(id, keys[0])}\n${await wrap(id, keys[1])}\n`)
    const env = { TENON_KEY_PROVIDER: 'kms', TENON_KMS_KEY_ID: id, TENON_MASTER_KEY_FILE: file }
    equal((await withMasterKeys<NodeJS.ProcessEnv>(env))['TENON_MASTER_KEY'], keys.join(','))
  },
  'commands of the page about keys: make a wrapped key, from which the settings that they export read the master key':
    async () => {
      await kms.send(new CreateAliasCommand({ AliasName: 'alias/tenon', TargetKeyId: await newKmsKey() }))
      const page = await readFile(resolve('docs/keys-and-kms.md'), 'utf8')
      const blocks = [...page.matchAll(/^```bash\n([\s\S]*?)\n```/gm)].map(([, code]) => code)
      equal(blocks.length, 1)
      const tenon = `npx() { shift; ${resolve('node_modules/.bin/tenon')} "$@"; }`
      const script = `${tenon}\n${blocks.join('\n')}\nnode -p 'JSON.stringify(process.env)'`
      const { stdout } = await execute('bash', ['-euc', script], {
        cwd: dir,
        env: { ...process.env, ...AWS },
      })
      const exported = JSON.parse(stdout) as NodeJS.ProcessEnv
      equal(exported['TENON_MASTER_KEY_FILE'], join(dir, 'keys'))
      const { TENON_MASTER_KEY: key = '' } = await withMasterKeys(exported)
      equal(parseMasterKeys(key).length, 1)
    },
  'API and worker with a wrapped key: start, and are ready': async () => {
    const id = await newKmsKey()
    const masterKey = Buffer.alloc(32, 1).toString('base64')
    const env = { ...AWS, ...settings(id, await wrap(id, masterKey)) }
    const started = await startPlatform(dir, { masterKey, env })
    await started.stop()
  },
  'key that was wrapped for something else, or is changed: refused with the reason': async () => {
    const id = await newKmsKey()
    const key = Buffer.alloc(32, 1).toString('base64')
    const said = /The master key cannot be read \(TENON_KEY_PROVIDER=kms\)\. AWS KMS refuses: \w+/
    const foreign = { EncryptionContext: { purpose: 'another' } }
    await rejects(withMasterKeys(settings(id, await wrap(id, key, foreign))), said)
    const changed = Buffer.from(await wrap(id, key), 'base64')
    changed[changed.length - 1] = (changed.at(-1) ?? 0) ^ 1
    await rejects(withMasterKeys(settings(id, changed.toString('base64'))), said)
  },
  'KMS away: refused with the reason': async () => {
    const id = await newKmsKey()
    const wrapped = await wrap(id, Buffer.alloc(32, 1).toString('base64'))
    moto.stop()
    const error = await withMasterKeys(settings(id, wrapped)).catch((one: Error) => one)
    match((error as Error).message, /AWS KMS refuses: .*ECONNREFUSED/)
  },
}

let failed = 0
try {
  for (const [name, check] of Object.entries(CHECKS)) {
    const failure = await check().then(
      () => undefined,
      (error: Error) => error,
    )
    process.stdout.write(`${failure === undefined ? '✓' : '✗'} ${name}\n`)
    if (failure === undefined) continue
    failed += 1
    process.stderr.write(`${failure.stack}\n`)
  }
} finally {
  moto.stop()
  await rm(dir, { recursive: true, force: true })
}
process.exit(failed === 0 ? 0 : 1)
