/** What stands in a jsonb expression, as SQL. Every value is bound. */

import type { Json } from '../../../core/work.ts'
import { type Sql, sql } from '../../../platform/pg/sql.ts'
import { isIndex, type Literal, type Members, type Step } from '../grammar/filter.ts'

/** The value at a path inside a jsonb expression. */
export function within(base: Sql, path: readonly string[]): Sql {
  return path.reduce(member, base)
}

/** `#>` takes a number as key or index, as it comes; `->` with a text takes it as a key alone. */
const member = (base: Sql, name: string): Sql =>
  isIndex(name) ? sql`(${base} #> array[${name}::text])` : sql`(${base} -> ${name}::text)`

/** Equal to one of the forms. */
export function among(value: Sql, forms: readonly Json[]): Sql {
  const [only] = forms
  if (forms.length === 1) return sql`${value} = ${JSON.stringify(only)}::jsonb`
  // Named apart from the element of an array around it, which would hide it.
  return sql`${value} = any(array(select form from jsonb_array_elements(${JSON.stringify(forms)}::jsonb) forms(form)))`
}

/** Containment of jsonb has exceptions for scalars, so the type is asked as well. */
export function compareArray(value: Sql, how: 'cs' | 'cd' | 'ov', literals: readonly Literal[]): Sql {
  const all = JSON.stringify(literals.flat())
  const test = {
    cs: () => containsEach(value, literals),
    cd: () => sql`${value} <@ ${all}::jsonb`,
    ov: () => sql`exists (select from jsonb_array_elements(${all}::jsonb) each(e) where ${holds(value)})`,
  }[how]
  return sql`(jsonb_typeof(${value}) = 'array' and ${test()})`
}

const holds = (value: Sql) => sql`${value} @> jsonb_build_array(e)`

/** The statement's text does not grow with the list: where a literal has several forms, each is a list of them. */
function containsEach(value: Sql, literals: readonly Literal[]): Sql {
  if (literals.every((literal) => literal.length === 1))
    return sql`${value} @> ${JSON.stringify(literals.flat())}::jsonb`
  const forms = sql`jsonb_array_elements(each.forms) form(e)`
  return sql`not exists (select from jsonb_array_elements(${JSON.stringify(literals)}::jsonb) each(forms)
    where not exists (select from ${forms} where ${holds(value)}))`
}

export function compareObject(value: Sql, how: 'cs' | 'cd', members: Members): Sql {
  const sign = how === 'cs' ? sql`@>` : sql`<@`
  return sql`(jsonb_typeof(${value}) = 'object' and ${value} ${sign} ${JSON.stringify(members)}::jsonb)`
}

/**
 * Walks without jsonpath: no text of a user is ever one, and no mode of it raises. An element is looked for among all
 * of them: of a scalar, PostgreSQL's `-> 0` is the scalar.
 */
export function below(value: Sql, steps: readonly Step[], literal: Literal): Sql {
  const [step, ...rest] = steps
  if (step === undefined) return among(value, literal)
  if (typeof step === 'object' && 'member' in step)
    return below(sql`(${value} -> ${step.member}::text)`, rest, literal)
  const elements = sql`jsonb_array_elements(case jsonb_typeof(${value}) when 'array' then ${value} end)`
  const here = step === 'every' ? sql`` : sql`n = ${step.index}::bigint + 1 and `
  return sql`exists (select from ${elements} with ordinality each(e, n) where ${here}${below(sql`e`, rest, literal)})`
}
