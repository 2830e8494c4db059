mod cloud;
mod flow;
mod planning;
