mod adoption;
mod answers;
mod cloud;
mod flow;
mod planning;
mod small;
