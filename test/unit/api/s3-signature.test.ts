/** Signatures of the S3 API: the examples of AWS's documentation, and requests that were changed after they were signed. */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { checksumsOf } from '../../../src/api/s3/checksums.ts'
import { decodeChunked } from '../../../src/api/s3/chunked-body.ts'
import { readSignature, type SignedParts } from '../../../src/api/s3/signature.ts'
import { Problem } from '../../../src/core/problem.ts'
import { verified } from '../../../src/features/objects/digests.ts'
import { presign, sign } from '../../support/clients/s3-signer.ts'

const SECRET = 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY'
const NOW = Date.parse('2013-05-24T00:00:00Z')
const EMPTY = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'
const CREDENTIAL = 'Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request'

/** A request of the examples, whose signed headers are all that it has. */
function example(request: string, headers: Record<string, string>, signature: string): SignedParts {
  const [method = '', target = ''] = request.split(' ')
  const all = {
    'x-amz-date': '20130524T000000Z',
    'x-amz-content-sha256': EMPTY,
    host: 'examplebucket.s3.amazonaws.com',
    ...headers,
  }
  const names = Object.keys(all).sort().join(';')
  const authorization = `AWS4-HMAC-SHA256 ${CREDENTIAL},SignedHeaders=${names},Signature=${signature}`
  const pairs = Object.entries({ ...all, authorization }).map(([name, value]) => [name, [value]])
  return { method, target, headers: Object.fromEntries(pairs) }
}

const EXAMPLES = {
  'GET Object': example(
    'GET /test.txt',
    { range: 'bytes=0-9' },
    'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
  ),
  'PUT Object': example(
    'PUT /test%24file.text',
    {
      ...{ date: 'Fri, 24 May 2013 00:00:00 GMT', 'x-amz-storage-class': 'REDUCED_REDUNDANCY' },
      'x-amz-content-sha256': '44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072',
    },
    '98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd',
  ),
  'GET Bucket Lifecycle': example(
    'GET /?lifecycle',
    {},
    'fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543',
  ),
  'GET Bucket': example(
    'GET /?max-keys=2&prefix=J',
    {},
    '34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7',
  ),
  'presigned URL': {
    method: 'GET',
    target:
      '/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404',
    headers: { host: ['examplebucket.s3.amazonaws.com'] },
  },
}

test.each(Object.entries(EXAMPLES))('signature: example of AWS, %s: is verified', (_name, parts) => {
  const { keyId, verify } = readSignature(parts, NOW)
  expect(keyId).toBe('AKIAIOSFODNN7EXAMPLE')
  expect(() => verify(SECRET)).not.toThrow()
  expect(() => verify(`${SECRET}x`)).toThrow(expect.objectContaining({ code: 'SignatureDoesNotMatch' }))
})

/** A body in chunks that come in pieces of some length. */
async function* pieces(body: Buffer, length: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < body.length; at += length) yield body.subarray(at, at + length)
}

const chunk = (bytes: Buffer, signature?: string) =>
  Buffer.concat([
    Buffer.from(`${bytes.length.toString(16)}${signature ? `;chunk-signature=${signature}` : ''}\r\n`),
    bytes,
    Buffer.from(bytes.length > 0 ? '\r\n' : ''),
  ])

const CHUNKED = {
  ...{ 'content-encoding': 'aws-chunked', host: 's3.amazonaws.com', 'x-amz-decoded-content-length': '66560' },
  'x-amz-storage-class': 'REDUCED_REDUNDANCY',
}
const A = Buffer.alloc(66_560, 'a')

interface Chunked {
  readonly parts: SignedParts
  readonly body: Buffer
  readonly trailer: readonly string[]
}

const signedChunks = (last: string, ...signatures: readonly [string, string, string]) =>
  Buffer.concat([
    chunk(A.subarray(0, 65_536), signatures[0]),
    chunk(A.subarray(65_536), signatures[1]),
    chunk(Buffer.alloc(0), signatures[2]),
    Buffer.from(`${last}\r\n`),
  ])

const CHUNKED_EXAMPLES: Readonly<Record<string, Chunked>> = {
  'signed chunks': {
    parts: example(
      'PUT /examplebucket/chunkObject.txt',
      { ...CHUNKED, 'content-length': '66824', 'x-amz-content-sha256': 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD' },
      '4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9',
    ),
    body: signedChunks(
      '',
      'ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648',
      '0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497',
      'b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9',
    ),
    trailer: [],
  },
  'signed chunks with a trailer': {
    parts: example(
      'PUT /examplebucket/chunkObject.txt',
      {
        ...{ ...CHUNKED, 'x-amz-trailer': 'x-amz-checksum-crc32c' },
        'x-amz-content-sha256': 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER',
      },
      '106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e',
    ),
    body: signedChunks(
      'x-amz-checksum-crc32c:sOO8/Q==\r\nx-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n',
      'b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2',
      '1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7',
      '2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992',
    ),
    trailer: ['x-amz-checksum-crc32c'],
  },
}

/** Decodes and verifies a body as the API does. */
async function decode({ parts, body, trailer }: Chunked, length: number): Promise<Buffer> {
  const values = new Map<string, string>()
  const checks = checksumsOf(
    trailer.map((name) => [name, undefined] as const),
    values,
  )
  const decoded = decodeChunked({
    ...{
      chunks: pieces(body, length),
      chain: readSignature(parts, NOW).verify(SECRET),
      trailer: new Set(trailer),
    },
    onTrailer: (found) => found.forEach((value, name) => void values.set(name, value)),
  })
  const got: Uint8Array[] = []
  for await (const one of verified(decoded, checks)) got.push(one)
  return Buffer.concat(got)
}

test.each(Object.entries(CHUNKED_EXAMPLES))(
  'aws-chunked: example of AWS, %s: is decoded, however it arrives',
  async (_name, sent) => {
    for (const length of [1_000_000, 65_000, 97]) expect((await decode(sent, length)).equals(A)).toBe(true)
  },
)

test.each(Object.entries(CHUNKED_EXAMPLES))(
  'aws-chunked: %s, with one byte changed, removed or added anywhere: is refused before its end',
  async (_name, sent) => {
    const heads = [0, 5, 60, 85, 90, 65_500, 65_620, 65_628, 65_640, 66_700, sent.body.length - 10]
    for (const at of heads.filter((index) => index < sent.body.length))
      for (const [cut, added] of [
        [1, [sent.body.readUInt8(at) ^ 1]],
        [1, []],
        [0, [0x61]],
      ] as const) {
        const body = Buffer.concat([
          sent.body.subarray(0, at),
          Buffer.from(added),
          sent.body.subarray(at + cut),
        ])
        await expect(decode({ ...sent, body }, 50_000), `byte ${at}`).rejects.toBeInstanceOf(Problem)
      }
    await expect(decode({ ...sent, body: sent.body.subarray(0, -40) }, 50_000)).rejects.toBeInstanceOf(
      Problem,
    )
  },
)

const KEY = { id: 'key_x', secret: 'secret' }
const HOST = 'localhost:8787'
const asParts = ({ method, target, headers }: ReturnType<typeof sign>): SignedParts => ({
  method,
  target,
  headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), [value]])),
})

test('signature: of any method, key and query: is verified as it was sent, and not after a change', () => {
  const text = fc.string({ unit: 'grapheme', maxLength: 20 })
  fc.assert(
    fc.property(
      text,
      fc.dictionary(
        text.filter((name) => name !== ''),
        text,
        { maxKeys: 4 },
      ),
      (key, query) => {
        const request = { method: 'PUT', host: HOST, path: `/b/${key}`, query, key: KEY }
        const verifies = (parts: SignedParts) => {
          try {
            readSignature(parts).verify(KEY.secret)
            return true
          } catch (error) {
            if (error instanceof Problem) return false
            throw error
          }
        }
        const signed = asParts(sign(request))
        const url = asParts({ ...presign(request), headers: { host: HOST } })
        expect([verifies(signed), verifies(url)]).toEqual([true, true])
        for (const parts of [signed, url]) {
          expect(verifies({ ...parts, method: 'GET' })).toBe(false)
          expect(verifies({ ...parts, target: parts.target.replace('/b/', '/c/') })).toBe(false)
          expect(
            verifies({ ...parts, target: `${parts.target}${parts.target.includes('?') ? '&' : '?'}x=1` }),
          ).toBe(false)
          expect(verifies({ ...parts, headers: { ...parts.headers, host: ['other'] } })).toBe(false)
          expect(verifies({ ...parts, headers: { ...parts.headers, 'x-amz-acl': ['private'] } })).toBe(false)
        }
      },
    ),
    { seed: 20_260_129, numRuns: 200 },
  )
})

test.each([
  ['20 minutes late', sign, 1_200_000, 'RequestTimeTooSkewed'],
  ['20 minutes early', sign, -1_200_000, 'RequestTimeTooSkewed'],
  ['14 minutes late', sign, 840_000, undefined],
  ['a URL after its end', presign, 61_000, 'forbidden'],
  ['a URL before its end', presign, 59_000, undefined],
  ['a URL of the future', presign, -1_200_000, 'forbidden'],
] as const)('signature: %s: is refused by its time alone', (_name, signer, laterMs, code) => {
  const signed = signer({ method: 'GET', host: HOST, path: '/b/k', key: KEY, expires: 60 })
  const parts = asParts({ ...signed, headers: { host: HOST, ...signed.headers } })
  const read = () => readSignature(parts, Date.now() + laterMs).verify(KEY.secret)
  if (code === undefined) expect(read).not.toThrow()
  else expect(read).toThrow(expect.objectContaining({ code }))
})
