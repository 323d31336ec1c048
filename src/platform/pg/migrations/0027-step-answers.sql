-- What the outside answered a step: calls and flows that were run. Simulations take their answers from it.
alter table tenon.execution_steps add column answer jsonb;
