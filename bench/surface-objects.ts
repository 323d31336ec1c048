/** Measures objects through the API, against the bare S3 SDK on the same store, in one run. */

import { Agent, request } from 'node:http'
import { GetObjectCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3'
import type { Running } from '../test/support/stack/start.ts'
import { createTestWorkspace } from './fixture.ts'
import { interleaved, print } from './measure.ts'

const SIZES = [
  { name: '4 KB', bytes: 4_096, rounds: 300 },
  { name: '8 MB', bytes: 8_388_608, rounds: 20 },
] as const

/** PUT and GET of each size, one at a time, alternating. */
export async function objects(running: Running): Promise<void> {
  const { admin, workspaceId, apikey } = await createTestWorkspace(running)
  const { bucket } = await admin.get<{ bucket: string }>(`/v1/workspaces/${workspaceId}`)
  const s3 = rootClient(running)
  const send = byteSender(running.url, apikey)
  for (const { name, bytes, rounds } of SIZES) {
    const Body = Buffer.alloc(bytes, 'x')
    const path = `/v1/objects/${bucket}/api-${bytes}`
    const target = { Bucket: bucket, Key: `sdk-${bytes}` }
    const put = () => s3.send(new PutObjectCommand({ ...target, Body }))
    // The order of the first round is random, and both are read.
    await put()
    await send('PUT', path, Body)
    const figures = await interleaved(rounds, {
      'PUT, SDK to the store': put,
      'PUT, API': () => send('PUT', path, Body),
      'GET, SDK to the store': async () => {
        const { Body: body } = await s3.send(new GetObjectCommand(target))
        await body?.transformToByteArray()
      },
      'GET, API': () => send('GET', path),
    })
    print(`\nobject of ${name}`, 'p50 ms', 'p99 ms', '× SDK')
    for (const [what, { p50Ms, p99Ms }] of Object.entries(figures)) {
      const base = figures[what.startsWith('PUT') ? 'PUT, SDK to the store' : 'GET, SDK to the store'].p50Ms
      print(what, p50Ms, p99Ms, p50Ms / base)
    }
  }
  s3.destroy()
}

function rootClient({ env }: Running): S3Client {
  return new S3Client({
    endpoint: env['S3_ENDPOINT'] ?? '',
    region: 'us-east-1',
    forcePathStyle: true,
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    credentials: {
      accessKeyId: env['S3_ACCESS_KEY_ID'] ?? '',
      secretAccessKey: env['S3_SECRET_ACCESS_KEY'] ?? '',
    },
  })
}

/**
 * Like the sender of fixture.ts, for bytes: a body is sent unchanged, and that of a response is discarded.
 */
function byteSender(
  url: string,
  apikey: string,
): (method: string, path: string, body?: Buffer) => Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const { hostname, port } = new URL(url)
  return (method, path, body) =>
    new Promise((resolve, reject) => {
      const headers = { apikey, ...(body !== undefined && { 'content-length': body.byteLength }) }
      const sent = request({ agent, hostname, port, method, path, headers }, (response) => {
        const good = response.statusCode === 200 || response.statusCode === 201
        response.on('end', () => (good ? resolve() : reject(new Error(`${method} ${response.statusCode}`))))
        response.resume()
      })
      sent.on('error', reject)
      sent.end(body)
    })
}
