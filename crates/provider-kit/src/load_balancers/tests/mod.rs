mod adoption;
mod answers;
mod cloud;
mod flow;
mod limits;
mod planning;
mod small;
mod turns;
