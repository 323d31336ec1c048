// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Compilation of `call: http` whose response is stored as an object: located diagnostics, and calls that run once. */

import { describe, expect, test } from 'vitest'
import { compile } from '../../../flows-dsl/compile/compile.ts'
import { faultsOf, HEAD, table } from '../../conformance/flows/diagnostic-table.ts'
import { CATALOGUE } from '../../conformance/flows/scenario.ts'

const http = (output: string, more = '') =>
  `{ call: http, with: { method: get, endpoint: 'https://x.test/f', output: ${output}${more} } }`

describe('output of call: http', () => {
  table([
    [http("{ object: { bucket: b, key: '${ .k }' } }")],
    [http('{ object: { bucket: b, key: k, content_type: x/y } }', ', delivery: at_most_once')],
    [http('¦{}'), 'missing_key /with/output'],
    [http('{ ¦objekt: 1, object: { bucket: b, key: k } }'), 'unknown_key /with/output/objekt'],
    [http('{ object: ¦film.mp4 }'), 'wrong_type /with/output/object'],
    [http('{ object: ¦{ bucket: b } }'), 'missing_key /with/output/object'],
    [http('{ object: { bucket: b, key: ¦{ a: 1 } } }'), 'wrong_type /with/output/object/key'],
    [http('{ object: { bucket: b, key: k, ¦size: 1 } }'), 'unknown_key /with/output/object/size'],
    [http('{ object: { bucket: b, key: k } }', ', errors: ¦data'), 'value_invalid /with/errors'],
    [
      `{ call: openapi, with: { document: { endpoint: 'https://x.test/a.json' }, operationId: a, output: ¦{ object: { bucket: b, key: k } } } }`,
      'wrong_type /with/output',
    ],
  ])

  test('a secret in the name of the object: is refused', () => {
    const tasks = `  - a: ${http("{ object: { bucket: b, key: '${ $secrets.key }' } }")}\n`
    const { diagnostics } = compile(HEAD.replace('do:', 'use: { secrets: [key] }\ndo:') + tasks, {
      catalogue: CATALOGUE,
    })
    expect(diagnostics.map(({ code, pointer }) => [code, pointer])).toEqual([
      ['secret_stored', '/do/0/a/with/output'],
    ])
  })

  test('a call that stores: has an activity of its own, and cannot be local', () => {
    const target = '{ object: { bucket: b, key: k } }'
    const { ir } = compile(`${HEAD}  - a: ${http(target)}\n`, { catalogue: CATALOGUE })
    expect(JSON.stringify(ir)).not.toContain('brief')
    const local = http(target).replace('{ call', '{ metadata: { tenon: { local: true } }, call')
    expect(faultsOf(`  - a: ${local}\n`)).toEqual([expect.stringContaining('value_invalid')])
  })
})
