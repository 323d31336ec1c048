/** `tenon mcp verify`: checks the signature of a published version, and its hash against the manifest. */

import { createHash } from 'node:crypto'
import { compactVerify, createLocalJWKSet, errors, type JSONWebKeySet } from 'jose'
import { canonical } from '../core/json.ts'
import { serverClient } from './mcp-admin.ts'
import { readCallerFile } from './settings.ts'
import type { WorkspaceOption } from './verb.ts'

interface Server {
  readonly id: string
  readonly slug: string
  readonly active_version: number | null
}

interface Version {
  readonly version: number
  readonly hash: string
  readonly published_at: string
  readonly manifest: unknown
  readonly signature: string
}

interface Options extends WorkspaceOption {
  readonly keys?: string
}

/** `typ` of signatures of manifests. */
const TYPE = 'tenon-mcp-manifest+jws'

/** @param number of the version; default: the active one */
export async function verify(server: string, number: string | undefined, options: Options): Promise<number> {
  const { client, path } = await serverClient(server, options.workspace)
  const found = await client.get<Server>(path)
  const wanted = number ?? found.active_version
  if (wanted === null) throw new Error(`${found.slug} has no active version. Name the version to verify.`)
  const version = await client.get<Version>(`${path}/versions/${encodeURIComponent(wanted)}`)
  const keys: JSONWebKeySet =
    options.keys === undefined
      ? await client.get('/.well-known/tenon-manifest-keys')
      : JSON.parse(await readCallerFile(options.keys))
  const kid = await checkVersion(found, version, keys)
  process.stdout.write(
    `Version ${version.version} of ${found.slug} is as published at ${version.published_at}.\n  SHA-256 ${version.hash}\n  key ${kid}\n`,
  )
  return 0
}

/** @returns the id of the key. @throws Error with the first thing that is wrong */
async function checkVersion(server: Server, version: Version, keys: JSONWebKeySet): Promise<string> {
  const hash = createHash('sha256').update(canonical(version.manifest)).digest('hex')
  if (hash !== version.hash)
    throw new Error(`The manifest was changed. Its SHA-256 is ${hash}, and the version has ${version.hash}.`)
  const { payload, protectedHeader } = await compactVerify(version.signature, createLocalJWKSet(keys), {
    algorithms: ['ES256'],
  }).catch((error: unknown) => {
    throw new Error(reasonOf(error))
  })
  if (protectedHeader.typ !== TYPE) throw new Error(`The signature has another type: ${protectedHeader.typ}.`)
  const claims = JSON.parse(Buffer.from(payload).toString()) as Record<string, unknown>
  const expected = {
    server_id: server.id,
    version: version.version,
    hash: version.hash,
    published_at: version.published_at,
  }
  for (const [name, value] of Object.entries(expected))
    if (claims[name] !== value)
      throw new Error(`The signature is for another version: its ${name} is ${claims[name]}, not ${value}.`)
  return protectedHeader.kid ?? ''
}

function reasonOf(error: unknown): string {
  if (error instanceof errors.JWKSNoMatchingKey)
    return 'The platform does not know the key of the signature, or has revoked it. If it was revoked, publish the server again.'
  return `The signature is not valid: ${error instanceof Error ? error.message : error}.`
}
