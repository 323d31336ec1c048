/** Static types of expressions: every value of an expression has one of the types that were inferred before it was evaluated. */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parseExpression } from '../../../flows-dsl/jq/parser/parse.ts'
import { shapeOf, shapeOfSchema } from '../../../flows-dsl/jq/static-type.ts'
import { typeOf } from '../../../flows-dsl/jq/write-json.ts'
import { isObject, type Json } from '../../../flows-dsl/json.ts'
import { expression, INPUTS } from './generated-programs.ts'
import { answerHere } from './jq-oracle.ts'

/** A schema that a value fits. Every second field is optional in it. */
function schemaOf(value: Json): Json {
  if (!isObject(value)) return { type: typeOf(value) }
  const keys = Object.keys(value)
  const properties = Object.fromEntries(keys.map((key) => [key, schemaOf(value[key] ?? null)]))
  return { type: 'object', properties, required: keys.filter((_, index) => index % 2 === 0) }
}

function typesOf(program: string, input: Json): readonly string[] | undefined {
  const parsed = parseExpression(program, [])
  const found =
    'op' in parsed ? shapeOf(parsed, { dot: shapeOfSchema(schemaOf(input)), variables: {} }) : undefined
  return found && [...found.types].sort()
}

test('generated programs: each value has one of the types that were told', () => {
  const programs = fc.sample(expression.any, { seed: 7, numRuns: 3_000 })
  const wrong: string[] = []
  let wellTyped = 0
  for (const [index, program] of programs.entries()) {
    const input = INPUTS[index % INPUTS.length] ?? null
    const types = typesOf(program, input)
    const values = program.length < 300 && types !== undefined ? answerHere(program, input) : []
    if (types === undefined || values === 'fails' || values.length > 1_000) continue
    wellTyped += 1
    for (const value of values)
      if (!types.includes(typeOf(value)))
        wrong.push(`${program} ⇐ ${JSON.stringify(input)}: ${typeOf(value)} is not in ${types}`)
  }
  expect(wrong).toEqual([])
  expect(wellTyped).toBeGreaterThan(250)
})

const INPUT = { who: 'ada', list: ['a'], deep: { n: 1 } }

test.each([
  ['.who', ['null', 'string']],
  ['.list', ['array']],
  ['.deep.n', ['number']],
  ['.who // "none"', ['string']],
  ['.who // .list', ['array', 'string']],
  ['[.who]', ['array']],
  ['.list | length', ['number']],
  ['.list | map(.x) | join(",")', ['string']],
  ['"\\(.who)!"', ['string']],
  ['if .who then .list else 1 end', ['array', 'number']],
  ['.deep.n > 1', ['boolean']],
  ['.deep.n + 1', ['number']],
  ['.who / ","', undefined],
  ['.list as $x | .deep', ['object']],
  ['.other', undefined],
  ['.list[0]', undefined],
  ['.[]', undefined],
  ['def length: []; length', undefined],
])('%s: can be %j', (program, types) => {
  const known = { list: INPUT.list, who: INPUT.who, deep: INPUT.deep }
  expect(typesOf(program, known)).toEqual(types)
})
