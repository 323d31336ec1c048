/** Knows errors: how one is raised, and what is done about one. */

import { EXPRESSION, variable } from './values.ts'
import { either, mapping, ref, type Schema, THEN, text } from './words.ts'

const integer = (description: string, more: Schema = {}): Schema => ({
  description,
  type: 'integer',
  ...more,
})

/** Compared as it stands, so no expression. */
const plain = (description: string): Schema => ({ ...text(description), not: EXPRESSION })

const NOTHING = { type: 'object', maxProperties: 0 }

const CONDITIONS = {
  when: ref('condition', 'Only where this holds.'),
  exceptWhen: ref('condition', 'Only where this does not hold.'),
}

const POLICY = mapping('How an attempt is made again.', {
  ...CONDITIONS,
  delay: ref('duration', 'The wait before a retry; none where nothing is said.'),
  backoff: {
    ...mapping('How the wait grows: not at all, by the delay each time, or doubled each time.', {
      constant: { description: 'The delay as it is.', ...NOTHING },
      linear: { description: 'The delay times the number of the retry.', ...NOTHING },
      exponential: { description: 'The delay doubled with each retry.', ...NOTHING },
    }),
    minProperties: 1,
    maxProperties: 1,
  },
  limit: mapping('When to stop.', {
    attempt: mapping('Of attempts.', {
      count: integer('How often at most, after the first attempt.', { minimum: 1 }),
      duration: ref('duration', 'How long each attempt may last, the first included.'),
    }),
    duration: ref('duration', 'From the start of the first attempt to the start of the last.'),
  }),
  jitter: mapping(
    'A time between these two is added to each wait.',
    {
      from: ref('duration', 'At least this.'),
      to: ref('duration', 'At most this.'),
    },
    ['from', 'to'],
  ),
})

export const ERRORS: Readonly<Record<string, Schema>> = {
  error: mapping(
    'An error (RFC 7807).',
    {
      type: either(
        'A URI that says what kind of error it is.',
        { type: 'string', pattern: '^\\S+$' },
        EXPRESSION,
      ),
      status: integer('The status, as in HTTP.'),
      title: text('What all errors of this type have in common, for people.'),
      detail: text('What happened this time, for people.'),
      instance: either(
        'The JSON pointer of what it comes from; that of the task where nothing is said.',
        { type: 'string', pattern: '^(?:/(?:[^~/]|~[01])*)+$' },
        EXPRESSION,
      ),
    },
    ['type', 'status'],
  ),
  retryPolicy: POLICY,
  catch: mapping('Which errors are caught, and what is done about them.', {
    errors: mapping('Errors that have all of these fields.', {
      with: {
        ...mapping('Fields as they must be.', {
          type: plain('The type of the error.'),
          status: integer('The status of the error.'),
          title: plain('The title of the error.'),
          detail: plain('The detail of the error.'),
          instance: plain('The JSON pointer of the task that faulted.'),
        }),
        minProperties: 1,
      },
    }),
    as: variable('The variable that has the error.', 'error'),
    ...CONDITIONS,
    retry: either(
      'Whether and how the tasks are run again.',
      ref('retryPolicy'),
      text('The name of a retry under `use.retries`.'),
    ),
    do: ref('tasks', 'Tasks that handle the error.'),
    [THEN]: ref('directive', 'Where to go after an error that was caught.'),
  }),
}
